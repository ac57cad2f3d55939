// Package scan reads a directory of the user and describes it as a snapshot.
//
// Files named .aresignore say what to leave out, by the rules of .gitignore files. The directory .git is left out unless a
// rule includes it. A file whose size, times and inode are those of the last scan is not read again: a cache file in the
// user's cache directory has its digests.
package scan

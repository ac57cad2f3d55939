// Package tree packs files and directories as tar, and unpacks tar that a job has written. The job may be hostile: whatever the tar says,
// nothing outside of the chosen file or directory is written, and no link leads out of it.
package tree

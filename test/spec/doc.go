// Package spec compares Ares with its five source documents, word by word. Every
// command, request body, answer, configuration file, query, metric name and error
// text of a document is a row of testdata/NNN.yaml, in the order of the document.
// The test runs the rows of one document in one bash session. The page
// docs/reference/spec.md is made from the same rows:
//
//	go test ./test/spec                                  # checks and runs every row
//	go test ./test/spec -run 'TestDocuments/003'         # runs one document
//	go test ./test/spec -run TestPage -write             # writes docs/reference/spec.md
//	go test ./test/spec -run TestSource -source DIRECTORY # compares the rows with the documents
//
// A session runs in its own network and process namespaces. Therefore the ports of
// the documents are free, and `pkill -f` reaches no other process. Its working
// directory is a copy of the repository with the programs in bin. The script
// testdata/prelude.sh defines functions for it, and testdata/NNN.sh, where it
// exists, prepares one document: for example it starts PostgreSQL on port 5433.
package spec

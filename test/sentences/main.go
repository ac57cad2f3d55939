// Command sentences draws sentences at random from the texts that people read.
// It takes equal numbers from the help of the ares binary, error texts, docs and
// comments. The command does not judge the sentences. A reviewer does that. With
// the same seed and the same source, the command draws the same sentences.
//
//	make build && go run ./test/sentences -seed 7 -n 60
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// A `sentence` is one sentence with its file and line.
type sentence struct{ text, source string }

func main() {
	seed := flag.Uint64("seed", 1, "seed of the draw")
	count := flag.Int("n", 60, "number of sentences, in equal parts from help, errors, docs and comments")
	root := flag.String("root", ".", "root of the tree")
	binary := flag.String("ares", "bin/ares", "the ares binary whose help is read")
	flag.Parse()
	if err := run(*root, *binary, *seed, *count); err != nil {
		fmt.Fprintln(os.Stderr, "sentences:", err)
		os.Exit(1)
	}
}

// This function draws sentences and prints them as a numbered list.
func run(root, binary string, seed uint64, count int) error {
	help, err := helpSentences(binary)
	if err != nil {
		return err
	}
	messages, comments, err := goSentences(root)
	if err != nil {
		return err
	}
	docs, err := docSentences(root)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a draw for reviewers needs no secret
	parts := [][]sentence{help, messages, docs, comments}
	number := 0
	for i, part := range parts {
		for _, s := range draw(random, part, share(count, len(parts), i)) {
			number++
			fmt.Printf("%3d. %s\n     %s\n", number, s.text, s.source)
		}
	}
	return nil
}

// This function divides `count` into equal parts and returns the size of part i.
// If `count` cannot be divided evenly, the first parts are larger by one.
func share(count, parts, i int) int {
	if i < count%parts {
		return count/parts + 1
	}
	return count / parts
}

// This function returns n different sentences at random.
func draw(random *rand.Rand, from []sentence, n int) []sentence {
	from = slices.Clone(from)
	slices.SortStableFunc(from, func(a, b sentence) int { return strings.Compare(a.text, b.text) })
	from = slices.CompactFunc(from, func(a, b sentence) bool { return a.text == b.text })
	random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
	return from[:min(n, len(from))]
}

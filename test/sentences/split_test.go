package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestParagraphs(t *testing.T) {
	t.Parallel()
	page := "# A heading. With two parts.\n\nJobs wait in queues. An array\nis one job (see `a.b`). Not one\n\n" +
		"| a table row. | It is left out. |\n\n    indented code is left out.\n\n" +
		"- An item with a sentence\n  goes on here.\n\n```sh\nAres runs this command here. \n```\nIt ends e.g. here at last.\n"
	var got []string
	for _, s := range paragraphs(withoutFences(page), "page.md") {
		got = append(got, s.text)
	}
	want := []string{"Jobs wait in queues.", "An array is one job (see `a.b`).", "An item with a sentence goes on here.", "It ends e.g. here at last."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDrawIsRepeatable(t *testing.T) {
	t.Parallel()
	from := []sentence{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"b", "4"}, {"d", "5"}}
	first := draw(rand.New(rand.NewPCG(7, 0)), from, 9)
	again := draw(rand.New(rand.NewPCG(7, 0)), from, 9)
	if len(first) != 4 || !slices.Equal(first, again) {
		t.Errorf("got %v and %v, want the same four sentences", first, again)
	}
	if got := []int{share(62, 4, 0), share(62, 4, 1), share(62, 4, 2), share(62, 4, 3)}; !slices.Equal(got, []int{16, 16, 15, 15}) {
		t.Errorf("62 in four parts: got %v", got)
	}
}

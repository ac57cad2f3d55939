package main

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leastWords is the minimum number of words in a sentence. A shorter text
// counts as a label.
const leastWords = 4

var (
	bullet  = regexp.MustCompile(`^\s*([-*]|\d+\.) +`)
	ending  = regexp.MustCompile("[.!?][)\"`*]* +")
	verbs   = regexp.MustCompile(`%[-+#]?[0-9.]*[a-zA-Z]`)
	dotted  = regexp.MustCompile(`\b(e\.g|i\.e|vs|etc)\.[)]? *$`)
	letters = regexp.MustCompile(`\pL`)
)

// This function returns the complete sentences of running text. Headings,
// tables and indented code are left out.
func paragraphs(text, source string) (found []sentence) {
	var paragraph []string
	inItem := false
	flush := func() {
		for _, s := range split(strings.Join(paragraph, " ")) {
			if isSentence(s) {
				found = append(found, sentence{s, source})
			}
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n ")
		isBullet := bullet.MatchString(line)
		indented := strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "  ") && !inItem
		switch {
		case line == "":
			flush()
		case strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|"):
			flush()
			inItem = false
		case isBullet:
			flush()
			inItem = true
			paragraph = append(paragraph, bullet.ReplaceAllString(line, ""))
		case indented && len(paragraph) == 0:
			flush()
		default:
			inItem = inItem && strings.HasPrefix(line, " ")
			paragraph = append(paragraph, strings.TrimSpace(line))
		}
	}
	flush()
	return found
}

// This function returns a text that needs no full stop, such as an error text.
// If the text is too short to be judged, the function returns nothing.
func phrase(text, source string) []sentence {
	words := strings.Fields(verbs.ReplaceAllString(text, ""))
	said := 0
	for _, w := range words {
		if letters.MatchString(w) {
			said++
		}
	}
	if said < leastWords {
		return nil
	}
	return []sentence{{strings.Join(strings.Fields(text), " "), source}}
}

// This function divides a paragraph after each full stop that ends a sentence.
func split(text string) (sentences []string) {
	start := 0
	for _, at := range ending.FindAllStringIndex(text, -1) {
		next, _ := utf8.DecodeRuneInString(text[at[1]:])
		if unicode.IsLower(next) || dotted.MatchString(text[start:at[1]]) {
			continue
		}
		sentences = append(sentences, strings.TrimSpace(text[start:at[1]]))
		start = at[1]
	}
	return append(sentences, strings.TrimSpace(text[start:]))
}

// isSentence reports whether a text is a complete sentence. It must be long
// enough, end with a full stop or another end mark, and contain no incomplete
// code span.
func isSentence(s string) bool {
	end := strings.TrimRight(s, ")\"`*")
	return len(strings.Fields(s)) >= leastWords && end != "" && strings.ContainsAny(end[len(end)-1:], ".!?") &&
		!strings.HasPrefix(s, "nolint") && !strings.HasPrefix(s, "-") && strings.Count(s, "`")%2 == 0
}

// withoutFences removes the fenced blocks of a Markdown page.
func withoutFences(text string) string {
	var kept strings.Builder
	inFence := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inFence = !inFence
			kept.WriteString("\n")
			continue
		}
		if !inFence {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

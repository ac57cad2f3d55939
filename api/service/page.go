package service

import (
	"encoding/base64"
	"sort"
	"strings"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
)

// PageByID returns one page of a list that is sorted by ID, and the token of
// the next page, or "" on the last page. PageByID converts only the items on
// the returned page to their public form.
func PageByID[T any, M proto.Message](all []T, size int32, token string, id func(T) string, public func(T) M) (page []M, next string, err error) {
	if after, readErr := base64.RawURLEncoding.DecodeString(token); token != "" && (readErr != nil || !validID(string(after))) {
		return nil, "", badPageToken()
	}
	return pageByKey(all, size, token, id, public)
}

// pageByKey is like PageByID, for a list that is sorted by keys of any form.
func pageByKey[T any, M proto.Message](all []T, size int32, token string, id func(T) string, public func(T) M) (page []M, next string, err error) {
	first := 0
	if token != "" {
		after, readErr := base64.RawURLEncoding.DecodeString(token)
		if readErr != nil {
			return nil, "", badPageToken()
		}
		first = sort.Search(len(all), func(i int) bool { return id(all[i]) > string(after) })
	}
	if size == 0 {
		size = DefaultPageSize
	}
	bytes := 0
	for i := first; i < len(all); i++ {
		m := public(all[i])
		if bytes += proto.Size(m); len(page) == int(size) || bytes > MaxPageBytes && len(page) > 0 {
			return page, base64.RawURLEncoding.EncodeToString([]byte(id(all[i-1]))), nil
		}
		page = append(page, m)
	}
	return page, "", nil
}

// validID reports whether `id` is a valid name, or two names separated by a
// slash.
func validID(id string) bool {
	tenant, name, two := strings.Cut(id, "/")
	return ares.ValidName(tenant) && (!two || ares.ValidName(name))
}

func badPageToken() error {
	return ares.Errorf(ares.Invalid, "page_token: is invalid: use the next_page_token of the previous response").At("page_token")
}

package main

import (
	"bytes"
	"fmt"

	"github.com/ares-scheduler/ares/test/overlay"
)

// halfLifeEnv is the name of an environment variable. Its value is the number of seconds in which a hub forgets half of a cluster's
// lost connections.
const halfLifeEnv = "ARES_TEST_HALF_LIFE"

// shortenDamping lets a test shorten the time for which a hub offers nothing to a cluster whose connection was lost often. Otherwise a
// few faults would end the offers for the rest of the run.
func shortenDamping(o *overlay.Overlay) error {
	const file = "federation/health/health.go"
	content, err := o.Read(file)
	if err != nil {
		return err
	}
	const constant, variable = "float64(HalfLife)", "float64(halfLife)"
	if n := bytes.Count(content, []byte(constant)); n != 2 {
		return fmt.Errorf("%s uses the half-life %d times, not twice: the edit no longer fits the source", file, n)
	}
	if err = o.Put(file, bytes.ReplaceAll(content, []byte(constant), []byte(variable))); err != nil {
		return err
	}
	return o.Put("federation/health/halflife.fail.go", []byte(`package health

import (
	"os"
	"strconv"
	"time"
)

var halfLife = readHalfLife()

func readHalfLife() time.Duration {
	text := os.Getenv("`+halfLifeEnv+`")
	if text == "" {
		return HalfLife
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds <= 0 {
		panic("`+halfLifeEnv+`: not a number of seconds")
	}
	return time.Duration(seconds) * time.Second
}
`))
}

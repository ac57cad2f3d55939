package apipb

import (
	"fmt"
	"math/big"
	"regexp"

	ares "github.com/ares-scheduler/ares"
)

// fractionalCPUs finds a fractional number of CPU cores in a JSON body. It finds nothing inside a string: there, the quotes
// around the name would have backslashes.
var fractionalCPUs = regexp.MustCompile(`"cpu_cores"(\s*):(\s*)(\d{1,9}(?:\.\d+)?(?:[eE][-+]?\d{1,2})?)`)

// splitCPUFractions replaces each fractional number of CPU cores, such as 11.5, by its whole cores and its thousandths,
// which are two fields of a message.
func splitCPUFractions(data []byte) ([]byte, error) {
	var bad string
	out := fractionalCPUs.ReplaceAllFunc(data, func(match []byte) []byte {
		parts := fractionalCPUs.FindSubmatch(match)
		cores, ok := new(big.Rat).SetString(string(parts[3]))
		if !ok || cores.IsInt() {
			return match
		}
		milli := cores.Mul(cores, big.NewRat(1000, 1))
		if !milli.IsInt() || !milli.Num().IsInt64() {
			bad = string(parts[3])
			return match
		}
		n := milli.Num().Int64()
		return fmt.Appendf(nil, `"cpu_cores"%s:%s%d, "cpu_milli": %d`, parts[1], parts[2], n/1000, n%1000)
	})
	if bad != "" {
		return nil, ares.Errorf(ares.Invalid, "cpu_cores: %s is too exact: write at most three decimals, such as 0.5 or 11.125", bad).At("cpu_cores")
	}
	return out, nil
}

package engine

import (
	"fmt"

	"github.com/ares-scheduler/ares/engine/cluster"
)

// gpuText writes thousandths of devices.
func gpuText(milli int64) string {
	if milli == cluster.WholeMilli {
		return "1 GPU"
	}
	return decimalText(int(milli)) + " GPUs"
}

// decimalText writes thousandths as a decimal.
func decimalText(n int) string {
	if n%1000 == 0 {
		return fmt.Sprint(n / 1000)
	}
	return fmt.Sprintf("%d.%03d", n/1000, n%1000)
}

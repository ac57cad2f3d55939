//go:build !nvml

package gpu

import (
	"context"
	"log/slog"
)

// library is nil: this build asks nvidia-smi.
func library(context.Context, *slog.Logger) Source { return nil }

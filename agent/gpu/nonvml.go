//go:build !nvml

package gpu

import (
	"context"
	"log/slog"
)

// The function `library` returns nil, because this build uses nvidia-smi.
func library(context.Context, *slog.Logger) Source { return nil }

//go:build linux

package run

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// hookSeconds limits a hook for which the specification of a device sets no limit. A hook that hangs would otherwise hold the devices until
// the job's lease ends.
const hookSeconds = 60

// injectDevices adds the devices of a container to its configuration.
func injectDevices(s *specs.Spec, c *seat.Container) error {
	dirs := slices.Clone(cdi.DefaultSpecDirs)
	if c.DeviceSpecs != "" {
		dirs = append(dirs, c.DeviceSpecs)
	}
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(dirs...))
	if err != nil {
		return fmt.Errorf("read the CDI specifications of the node's devices: %w", err)
	}
	if missing, err := cache.InjectDevices(s, c.Devices...); err != nil {
		return errors.Join(fmt.Errorf("the CDI specifications of the node do not describe its devices %q: restart the agent, which makes them again, or generate those in /etc/cdi again (%w)",
			missing, err), ProblemsOf(cache))
	}
	if h := s.Hooks; h != nil {
		for _, list := range [][]specs.Hook{h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop} { //nolint:staticcheck // old specifications have prestart hooks
			for i := range list {
				if list[i].Timeout == nil {
					list[i].Timeout = new(hookSeconds)
				}
			}
		}
	}
	return nil
}

// ProblemsOf returns what is wrong with the CDI specifications of the node, or nil.
func ProblemsOf(cache *cdi.Cache) error {
	all := cache.GetErrors()
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, fmt.Errorf("the CDI specification %s cannot be used: %w: repair or remove it, and restart the agent", file, errors.Join(all[file]...)))
	}
	return errors.Join(errs...)
}

package realnode

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// devicePlugin tells the kubelet of GPUs that do not exist. A container gets, for each of its GPUs, the device file
// /dev/ID, and all IDs in ARES_TEST_GPUS.
type devicePlugin struct {
	v1beta1.UnimplementedDevicePluginServer
	ids    []string
	server *grpc.Server
	ended  chan struct{} // closed when the plugin stops

	mu    sync.Mutex
	order []string // the GPUs that it prefers first
}

// deviceIDs returns the IDs of the GPUs of a node. As with real GPUs, they say nothing of an order.
func deviceIDs(count int) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = "GPU-" + digest(fmt.Append(nil, i))[:12]
	}
	return out
}

// startDevicePlugin serves the device plugin and registers it. The kubelet must have made its socket, because it deletes the
// other sockets of the directory when it starts.
func startDevicePlugin(ctx context.Context, dir string, gpus int) (*devicePlugin, error) {
	const socket = "ares-test.sock"
	p := &devicePlugin{ids: deviceIDs(gpus), server: grpc.NewServer(), ended: make(chan struct{})}
	v1beta1.RegisterDevicePluginServer(p.server, p)
	l, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		return nil, err
	}
	go func() { _ = p.server.Serve(l) }() // ends with stop
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer conn.Close()
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err = v1beta1.NewRegistrationClient(conn).Register(ctx, &v1beta1.RegisterRequest{
			Version: v1beta1.Version, Endpoint: socket, ResourceName: string(kubetest.GPUs),
			Options: &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true},
		})
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("register the device plugin: %w", err)
	}
	return p, nil
}

func (p *devicePlugin) stop() {
	close(p.ended)
	p.server.Stop()
}

// GetDevicePluginOptions implements the device plugin's service.
func (*devicePlugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{GetPreferredAllocationAvailable: true}, nil
}

// ListAndWatch sends the list of all GPUs, which never changes.
func (p *devicePlugin) ListAndWatch(_ *v1beta1.Empty, to v1beta1.DevicePlugin_ListAndWatchServer) error {
	list := &v1beta1.ListAndWatchResponse{}
	for _, id := range p.ids {
		list.Devices = append(list.Devices, &v1beta1.Device{ID: id, Health: v1beta1.Healthy})
	}
	if err := to.Send(list); err != nil {
		return err
	}
	select {
	case <-to.Context().Done():
	case <-p.ended:
	}
	return nil
}

// Prefer lets the kubelet choose these of the free GPUs first, and the others after them in any order.
func (n *Node) Prefer(ids ...string) {
	n.plugin.mu.Lock()
	defer n.plugin.mu.Unlock()
	n.plugin.order = ids
}

// GetPreferredAllocation chooses by the order of Prefer. Then the kubelet chooses the rest.
func (p *devicePlugin) GetPreferredAllocation(_ context.Context, r *v1beta1.PreferredAllocationRequest) (*v1beta1.PreferredAllocationResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &v1beta1.PreferredAllocationResponse{}
	for _, c := range r.ContainerRequests {
		chosen := slices.Clone(c.MustIncludeDeviceIDs)
		for _, id := range p.order {
			if len(chosen) < int(c.AllocationSize) && slices.Contains(c.AvailableDeviceIDs, id) && !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
		out.ContainerResponses = append(out.ContainerResponses, &v1beta1.ContainerPreferredAllocationResponse{DeviceIDs: chosen})
	}
	return out, nil
}

// Allocate returns what the containers need to use their GPUs.
func (*devicePlugin) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	out := &v1beta1.AllocateResponse{}
	for _, c := range r.ContainerRequests {
		response := &v1beta1.ContainerAllocateResponse{Envs: map[string]string{"ARES_TEST_GPUS": strings.Join(c.DevicesIds, ",")}}
		for _, id := range c.DevicesIds {
			response.Devices = append(response.Devices, &v1beta1.DeviceSpec{ContainerPath: "/dev/" + id, HostPath: "/dev/null", Permissions: "rw"})
		}
		out.ContainerResponses = append(out.ContainerResponses, response)
	}
	return out, nil
}

package realnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	pluginregistration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// claimDriver is a DRA driver whose devices do not exist. A container gets, for each device that is allocated to its claim, the
// device file /dev/NAME, and all names in ARES_TEST_GPUS. The driver publishes no ResourceSlice: tests do.
type claimDriver struct {
	dra.UnimplementedDRAPluginServer
	registration
	name   string
	cdi    string // directory of the CDI files
	client kubernetes.Interface
}

// registration tells the kubelet of a driver.
type registration struct {
	pluginregistration.UnimplementedRegistrationServer
	info *pluginregistration.PluginInfo
	once sync.Once
	done chan error // gets the kubelet's first answer
}

// StartClaimDriver runs a DRA driver on the node until the test ends, and waits until the kubelet knows it. Publish the
// ResourceSlices of the node after that, because a kubelet deletes those of drivers that it does not know.
func (n *Node) StartClaimDriver(t testing.TB, name string) {
	t.Helper()
	d := &claimDriver{name: name, cdi: filepath.Join(n.Dir, "cdi"), client: n.cluster.Client}
	d.done = make(chan error, 1)
	d.info = &pluginregistration.PluginInfo{
		Type: pluginregistration.DRAPlugin, Name: name, Endpoint: "/var/lib/kubelet/plugins/" + name + ".sock", // as the kubelet sees it
		SupportedVersions: []string{dra.DRAPluginService},
	}
	server := grpc.NewServer()
	dra.RegisterDRAPluginServer(server, d)
	pluginregistration.RegisterRegistrationServer(server, d)
	t.Cleanup(server.Stop)
	for _, dir := range []string{"plugins", "plugins_registry"} { // the kubelet looks for the second, so it comes last
		l, err := n.listenUnix(dir, name+".sock")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = server.Serve(l) }() // ends with Stop
	}
	select {
	case err := <-d.done:
		if err != nil {
			t.Fatalf("the kubelet rejects the driver %s: %v", name, err)
		}
	case <-time.After(startTimeout):
		t.Fatalf("the kubelet does not register the driver %s", name)
	}
}

// listenUnix listens at a socket below the kubelet's directory.
func (n *Node) listenUnix(dir, name string) (net.Listener, error) {
	path := filepath.Join(n.Dir, "kubelet", dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return net.Listen("unix", filepath.Join(path, name))
}

// GetInfo implements the registration's service.
func (r *registration) GetInfo(context.Context, *pluginregistration.InfoRequest) (*pluginregistration.PluginInfo, error) {
	return r.info, nil
}

// NotifyRegistrationStatus implements the registration's service.
func (r *registration) NotifyRegistrationStatus(_ context.Context, s *pluginregistration.RegistrationStatus) (*pluginregistration.RegistrationStatusResponse, error) {
	r.once.Do(func() {
		if s.PluginRegistered {
			r.done <- nil
		} else {
			r.done <- errors.New(s.Error)
		}
	})
	return &pluginregistration.RegistrationStatusResponse{}, nil
}

// NodePrepareResources writes a CDI file for each claim.
func (d *claimDriver) NodePrepareResources(ctx context.Context, r *dra.NodePrepareResourcesRequest) (*dra.NodePrepareResourcesResponse, error) {
	out := &dra.NodePrepareResourcesResponse{Claims: map[string]*dra.NodePrepareResourceResponse{}}
	for _, claim := range r.Claims {
		devices, err := d.prepare(ctx, claim)
		response := &dra.NodePrepareResourceResponse{Devices: devices}
		if err != nil {
			response.Error = err.Error()
		}
		out.Claims[claim.Uid] = response
	}
	return out, nil
}

func (d *claimDriver) prepare(ctx context.Context, ref *dra.Claim) (devices []*dra.Device, err error) {
	claim, err := d.client.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if string(claim.UID) != ref.Uid || claim.Status.Allocation == nil {
		return nil, fmt.Errorf("the claim %s is not allocated", ref.Name)
	}
	var names []string
	var nodes []map[string]string
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		devices = append(devices, &dra.Device{RequestNames: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device})
		names = append(names, result.Device)
		nodes = append(nodes, map[string]string{"path": "/dev/" + result.Device, "hostPath": "/dev/null"})
	}
	if len(devices) == 0 {
		return nil, nil
	}
	// One CDI device stands for all devices of the claim, because the variable has all names.
	devices[0].CdiDeviceIds = []string{cdiKind + "=" + ref.Uid}
	text, err := json.Marshal(map[string]any{
		"cdiVersion": "0.5.0", "kind": cdiKind,
		"devices": []any{map[string]any{"name": ref.Uid, "containerEdits": map[string]any{
			"env": []string{"ARES_TEST_GPUS=" + strings.Join(names, ",")}, "deviceNodes": nodes,
		}}},
	})
	if err != nil {
		return nil, err
	}
	return devices, os.WriteFile(d.file(ref), text, 0o600)
}

// cdiKind is the kind of the CDI devices.
const cdiKind = "ares.dev/test-gpu"

func (d *claimDriver) file(claim *dra.Claim) string { return filepath.Join(d.cdi, claim.Uid+".json") }

// NodeUnprepareResources removes the CDI files of claims. It may be called twice.
func (d *claimDriver) NodeUnprepareResources(_ context.Context, r *dra.NodeUnprepareResourcesRequest) (*dra.NodeUnprepareResourcesResponse, error) {
	out := &dra.NodeUnprepareResourcesResponse{Claims: map[string]*dra.NodeUnprepareResourceResponse{}}
	for _, claim := range r.Claims {
		response := &dra.NodeUnprepareResourceResponse{}
		if err := os.Remove(d.file(claim)); err != nil && !errors.Is(err, os.ErrNotExist) {
			response.Error = err.Error()
		}
		out.Claims[claim.Uid] = response
	}
	return out, nil
}

package kubetest

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// stages tell KWOK how its nodes and pods behave.
//
//go:embed stages.yaml
var stages []byte

// describe finds the programs, reserves the ports, issues the certificates and prepares the processes of the control plane.
func (c *Cluster) describe() error {
	if err := c.describePKI(); err != nil {
		return err
	}
	for _, build := range []func() error{c.describeEtcd, c.describeControllers, c.describeKWOK} {
		if err := build(); err != nil {
			return err
		}
	}
	return nil
}

// describePKI issues the certificates and makes the administrator's clients.
func (c *Cluster) describePKI() error {
	port, err := c.ports.next()
	if err != nil {
		return err
	}
	c.url = "https://127.0.0.1:" + port
	if c.pki, err = newAuthority(filepath.Join(c.Dir, "pki")); err != nil {
		return err
	}
	if err := c.pki.issueServer("apiserver"); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.UserKubeconfig("kubernetes-admin", "system:masters"); err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS, c.Config.Burst = 2000, 4000
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

// describeEtcd prepares etcd and the API server that stores into it.
func (c *Cluster) describeEtcd() error {
	etcd, err := etcdProgram()
	if err != nil {
		return err
	}
	client, err := c.ports.next()
	if err != nil {
		return err
	}
	peer, err := c.ports.next()
	if err != nil {
		return err
	}
	clientURL, peerURL := "http://127.0.0.1:"+client, "http://127.0.0.1:"+peer
	// Tests kill processes, never the machine, so nothing depends on fsync.
	c.Etcd = newProcess(c.Dir, "etcd", etcd, "--name=kubetest", "--data-dir="+filepath.Join(c.Dir, "etcd"),
		"--listen-client-urls="+clientURL, "--advertise-client-urls="+clientURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=kubetest="+peerURL,
		"--unsafe-no-fsync", "--log-level=warn")

	program, err := Program(APIServer)
	if err != nil {
		return err
	}
	port := c.url[len("https://127.0.0.1:"):]
	args := []string{
		program, "--etcd-servers=" + clientURL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
		"--client-ca-file=" + c.pki.path("ca.crt"),
		"--tls-cert-file=" + c.pki.path("apiserver.crt"), "--tls-private-key-file=" + c.pki.path("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.pki.path("sa.key"), "--service-account-signing-key-file=" + c.pki.path("sa.key"),
		"--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
		"--endpoint-reconciler-type=none", "--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
	}
	if t := c.options.Toleration; t != 0 {
		args = append(args, fmt.Sprintf("--default-not-ready-toleration-seconds=%d", seconds(t)),
			fmt.Sprintf("--default-unreachable-toleration-seconds=%d", seconds(t)))
	}
	args = append(append(args, c.options.gates()...), c.options.APIServerArgs...)
	c.APIServer = newProcess(c.Dir, APIServer, args...)
	return nil
}

func (c *Cluster) describeControllers() error {
	program, err := Program(Controllers)
	if err != nil {
		return err
	}
	lease := c.options.nodeLease()
	args := []string{
		program, "--kubeconfig=" + c.Kubeconfig,
		"--node-monitor-grace-period=" + lease.String(), "--node-monitor-period=" + min(lease/8, 5*time.Second).String(),
		"--pod-gc-period=2s", "--pod-gc-quarantine=4s",
	}
	args = append(append(args, c.options.gates()...), c.options.ControllerArgs...)
	c.Controllers = newProcess(c.Dir, Controllers, args...)
	return nil
}

func (c *Cluster) describeKWOK() error {
	program, err := Program(KWOK)
	if err != nil {
		return err
	}
	config := filepath.Join(c.Dir, "stages.yaml")
	if err := os.WriteFile(config, stages, 0o600); err != nil {
		return err
	}
	c.KWOK = newProcess(c.Dir, KWOK, program, "--kubeconfig="+c.Kubeconfig, "--config="+config,
		"--manage-nodes-with-label-selector="+kubeletLabel+"="+kubeletRuns,
		fmt.Sprintf("--node-lease-duration-seconds=%d", seconds(c.options.nodeLease())))
	return nil
}

func (c *Cluster) isAPIReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return c.Client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) hasServiceAccount(ctx context.Context) error {
	_, err := c.Client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

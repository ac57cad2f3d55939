package kubetest

import (
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// UserKubeconfig writes a kubeconfig with a client certificate of the user and returns its path. The user may do what RBAC
// allows the user or one of the groups.
func (c *Cluster) UserKubeconfig(user string, groups ...string) (string, error) {
	name := strings.NewReplacer(":", "-", "/", "-").Replace(user)
	if err := c.pki.issueClient(name, user, groups); err != nil {
		return "", fmt.Errorf("certificate of %s: %w", user, err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["kubetest"] = &clientcmdapi.Cluster{Server: c.url, CertificateAuthority: c.pki.path("ca.crt")}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{
		ClientCertificate: c.pki.path(name + ".crt"), ClientKey: c.pki.path(name + ".key"),
	}
	config.Contexts["kubetest"] = &clientcmdapi.Context{Cluster: "kubetest", AuthInfo: user}
	config.CurrentContext = "kubetest"
	path := filepath.Join(c.Dir, name+".kubeconfig")
	return path, clientcmd.WriteToFile(*config, path)
}

// ServiceAccountKubeconfig writes a kubeconfig whose user has the name and the groups of a service account, so that the
// RBAC rules of the account apply. Neither the account nor a token of it needs to exist.
func (c *Cluster) ServiceAccountKubeconfig(namespace, name string) (string, error) {
	return c.UserKubeconfig("system:serviceaccount:"+namespace+":"+name,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

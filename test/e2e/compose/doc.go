// Package compose runs docker-compose.yml and demo.sh with a real Docker, and
// the commands of the source documents against the containers. The images are
// built from this checkout, because test machines reach no registry. Docker
// runs in namespaces of its own, so the test never touches another Docker,
// other containers or used ports.
package compose

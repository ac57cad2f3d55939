// Package service has the handlers of the API, one file per service or per kind
// of answer. The pipeline has already validated and authorized the request, and
// has resolved its tenant. A handler returns only the objects that its caller
// may see. Handlers know nothing about HTTP, and they do not check whether the
// caller may call the method.
package service

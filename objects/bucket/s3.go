package bucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// The parameters of the URL of a bucket.
const (
	endpointParameter = "endpoint"
	regionParameter   = "region"
	// defaultRegion is what servers other than Amazon's usually want, when they want one.
	defaultRegion = "us-east-1"
	// answerWithin is how long an S3 server may take to begin its answer. Then the call is tried again, a few times.
	answerWithin = 20 * time.Second
)

// ParseURL returns the place of a bucket: s3://BUCKET/PREFIX?region=REGION&endpoint=https://HOST:PORT. Only the bucket is required. The
// error says what to write instead.
func ParseURL(text string) (Place, error) {
	const form = "write it as s3://BUCKET, s3://BUCKET/PREFIX or s3://BUCKET?region=REGION&endpoint=https://HOST:PORT"
	u, err := url.Parse(text)
	if err != nil {
		return Place{}, fmt.Errorf("it is no URL: %s", form)
	}
	if u.User != nil {
		return Place{}, errors.New("a URL with a password ends up in logs: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SHARED_CREDENTIALS_FILE, for the server instead")
	}
	if u.Scheme != "s3" || u.Host == "" || u.Port() != "" || u.Fragment != "" {
		return Place{}, fmt.Errorf("%q does not name a bucket: %s", text, form)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Place{}, fmt.Errorf("%q has parameters that cannot be read: %s", text, form)
	}
	for name, values := range query {
		if !slices.Contains([]string{endpointParameter, regionParameter}, name) || len(values) != 1 {
			return Place{}, fmt.Errorf("%q has the parameter %s, which is unknown or there twice: %s", text, name, form)
		}
	}
	if at := query.Get(endpointParameter); at != "" {
		e, err := url.Parse(at)
		if err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" || e.User != nil || e.RawQuery != "" {
			return Place{}, fmt.Errorf("the endpoint %q is no address of a server: write endpoint=https://HOST:PORT", at)
		}
	}
	return Place{URL: u}, nil
}

// openS3 opens a bucket with the credentials that Amazon's tools use: from the environment, from files, or of the machine. With an
// endpoint, the name of the bucket is in the path and not in the host, as servers other than Amazon's want it.
func openS3(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	query := u.Query()
	// The content is checked by its own digests. Checksums in trailers would keep many servers from answering at all.
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.ResponseHeaderTimeout = answerWithin })),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired),
	}
	if region := query.Get(regionParameter); region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("read the settings for s3: %w", err)
	}
	cfg.Region = cmp.Or(cfg.Region, defaultRegion)
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		if at := query.Get(endpointParameter); at != "" {
			o.BaseEndpoint, o.UsePathStyle = &at, true
		}
	})
	b, err := s3blob.OpenBucket(ctx, client, u.Host, nil)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", u.Redacted(), err)
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		b = blob.PrefixedBucket(b, prefix+"/")
	}
	return b, nil
}

// s3Reason says in one line why an S3 server refused, and what to do. The errors of the client contain the whole request.
func s3Reason(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "NoSuchBucket":
			return "there is no such bucket: an administrator must create it"
		case "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "Forbidden":
			return fmt.Sprintf("the server refused the credentials (%s): an administrator must set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "+
				"or AWS_SHARED_CREDENTIALS_FILE, for the server", api.ErrorCode())
		}
		return fmt.Sprintf("%s: %s", api.ErrorCode(), api.ErrorMessage())
	}
	if netErr, ok := errors.AsType[*net.OpError](err); ok {
		return "the S3 server cannot be reached: " + netErr.Error()
	}
	return err.Error()
}

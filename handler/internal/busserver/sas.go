package busserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// grant lets a connection use the entities at and below a path until a time.
type grant struct {
	path  string // empty: the whole namespace
	until time.Time
}

func (g grant) covers(path string, now time.Time) bool {
	return now.Before(g.until) && (g.path == "" || g.path == path || strings.HasPrefix(path, g.path+"/"))
}

// verify checks a shared access signature:
//
//	SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<key name>
//
// whose signature is the base64 of the HMAC-SHA256 over the resource as it is
// written there, a line feed and the expiry.
func verify(token, keyName, key string, now time.Time) (grant, error) {
	const scheme = "SharedAccessSignature "
	if !strings.HasPrefix(token, scheme) {
		return grant{}, errors.New("it is no shared access signature")
	}
	written := map[string]string{}
	for field := range strings.SplitSeq(token[len(scheme):], "&") {
		name, value, _ := strings.Cut(field, "=")
		written[name] = value
	}
	name, err := url.QueryUnescape(written["skn"])
	if err != nil || name != keyName {
		return grant{}, errors.New("its key name is not known")
	}
	signature, err := url.QueryUnescape(written["sig"])
	if err != nil {
		return grant{}, errors.New("its signature is not escaped well")
	}
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return grant{}, errors.New("its signature is not base64")
	}
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(written["sr"] + "\n" + written["se"]))
	if !hmac.Equal(given, mac.Sum(nil)) {
		return grant{}, errors.New("its signature is wrong")
	}
	expiry, err := strconv.ParseInt(written["se"], 10, 64)
	if err != nil {
		return grant{}, errors.New("its expiry is no number")
	}
	resource, err := url.QueryUnescape(written["sr"])
	if err != nil {
		return grant{}, errors.New("its resource is not escaped well")
	}
	g := grant{path: path(resource), until: time.Unix(expiry, 0)}
	if !now.Before(g.until) {
		return grant{}, errors.New("it has expired")
	}
	return g, nil
}

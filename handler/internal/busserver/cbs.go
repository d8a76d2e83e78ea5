package busserver

import "orderflow/handler/internal/amqp"

// putToken serves the one operation of the $cbs node: it takes a token for an
// audience and lets the connection use what both cover.
func (c *connection) putToken(r request) response {
	if r.operation != "put-token" {
		return refused(501, amqp.NotImplemented, "The operation is not supported.")
	}
	if c.server.config.Key == "" {
		return response{status: 202, description: "Accepted"}
	}
	token, _ := r.body.(string)
	config := c.server.config
	g, err := verify(token, config.KeyName, config.Key, config.Now())
	if err != nil {
		return refused(401, amqp.UnauthorizedAccess, "The token is not valid: "+err.Error()+".")
	}
	audience, _ := r.properties.Get("name").(string)
	if !g.covers(path(audience), config.Now()) {
		return refused(401, amqp.UnauthorizedAccess, "The token does not cover the audience.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grants[path(audience)] = g.until
	return response{status: 202, description: "Accepted"}
}

// authorized says why the connection may not use an entity or the $management
// node below it.
func (c *connection) authorized(a address) *amqp.Error {
	if c.server.config.Key == "" {
		return nil
	}
	now := c.server.config.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for path, until := range c.grants {
		if (grant{path, until}).covers(a.path(), now) {
			return nil
		}
	}
	return amqp.Errorf(amqp.UnauthorizedAccess, "Unauthorized access to '%s': a token has to be put first.", a)
}

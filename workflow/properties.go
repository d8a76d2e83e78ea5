package workflow

// The application properties that carry lineage, schema and trace context.
const (
	PropertyParent      = "ParentMessageId"
	PropertyOrigin      = "OriginatingMessageId"
	PropertySchema      = "SchemaVersion"
	PropertyTrace       = "traceparent"
	PropertyTraceLegacy = "Diagnostic-Id" // what the Azure SDKs write and read
)

// ContentType is that of every message sent.
const ContentType = "application/json"

// Properties are the application properties of a message on the wire. A
// message without trace context has none of the trace properties.
func (o *Outgoing) Properties() map[string]string {
	p := map[string]string{PropertyParent: o.ParentID, PropertyOrigin: o.OriginID, PropertySchema: "1"}
	if o.TraceParent != "" {
		p[PropertyTrace], p[PropertyTraceLegacy] = o.TraceParent, o.TraceParent
	}
	return p
}

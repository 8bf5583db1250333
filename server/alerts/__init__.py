"""Who is told of what goes wrong: rules of alerting, channels, and the outbox that sends until it is delivered."""

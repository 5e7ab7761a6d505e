CREATE TABLE minion_sign_in (
    key_sha256 bytea PRIMARY KEY CHECK (octet_length(key_sha256) = 32),
    token_id bigint NOT NULL REFERENCES minion_token,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE minion_sign_in IS 'Links that sign a browser in once, in the name of a token; deleted by their use.';

-- What nodes say about themselves each second, and what they decided in each step of the last hour.
ALTER TABLE nodes ADD COLUMN figures TEXT;

CREATE TABLE node_history (
    node    TEXT NOT NULL,
    step    INTEGER NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (step, node)
);

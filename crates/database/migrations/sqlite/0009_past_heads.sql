-- The last heads of lists that nodes follow by sequences, without the present ones. A head that a node has seen and that is
-- not here was lost, with all that led to it.
CREATE TABLE past_heads (
    list     TEXT NOT NULL, -- live or trust
    sequence INTEGER NOT NULL,
    PRIMARY KEY (list, sequence)
);

-- When an override was last used, as far as nodes have told. Nobody has to learn of it, so it has no sequence.
ALTER TABLE live_entries ADD COLUMN last_used TIMESTAMPTZ;

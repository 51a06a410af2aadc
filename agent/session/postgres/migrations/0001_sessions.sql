-- Keys are text as the program gives it; times are RFC 3339 in UTC with nine digits.
CREATE TABLE parley_session (
  app      TEXT COLLATE "C" NOT NULL,
  user_id  TEXT COLLATE "C" NOT NULL,
  id       TEXT COLLATE "C" NOT NULL,
  revision BIGINT NOT NULL,
  updated  TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (app, user_id, id)
);
CREATE INDEX parley_session_updated ON parley_session (updated);
CREATE INDEX parley_session_user ON parley_session (user_id);

-- seq is the session's revision after the event.
CREATE TABLE parley_event (
  app        TEXT COLLATE "C" NOT NULL,
  user_id    TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  seq        BIGINT NOT NULL,
  id         TEXT COLLATE "C" NOT NULL,
  at         TEXT COLLATE "C" NOT NULL,
  body       TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (app, user_id, session_id, seq),
  UNIQUE (app, user_id, session_id, id)
);

-- session_id is empty for what a user's sessions share, user_id too for an app's.
CREATE TABLE parley_state (
  app        TEXT COLLATE "C" NOT NULL,
  user_id    TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  name       TEXT COLLATE "C" NOT NULL,
  value      TEXT COLLATE "C" NOT NULL,
  updated    TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (app, user_id, session_id, name)
);
CREATE INDEX parley_state_user ON parley_state (user_id);

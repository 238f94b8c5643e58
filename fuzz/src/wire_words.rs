//! Seeds and dictionary words for the network protocols.

/// Commands as clients send them.
pub(crate) const COMMANDS: &[&str] = &[
    "*5\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n",
    "*6\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$1\r\n0\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n",
    "*3\r\n$8\r\nTG.CHECK\r\n$4\r\nuser\r\n$2\r\n42\r\n",
    "TG.CHECK user 42 path /api/x header:x-weight 3 jwt:sub a descriptor:a b query:q 'a b' cost 2 trust 0.8\r\n",
    "PING\r\n",
    "ECHO \"a\\x00b\"\r\n",
    "HELLO 3 SETNAME me\r\nINFO\r\nCLIENT LIST\r\nCOMMAND DOCS\r\nRESET\r\n",
    "HELLO 2 AUTH default x\r\nAUTH x\r\n",
    "CLIENT SETINFO LIB-NAME x\r\nCLIENT GETNAME\r\nCLIENT ID\r\nCLIENT HELP\r\n",
    "COMMAND INFO ping nothing\r\nCOMMAND COUNT\r\nCOMMAND LIST\r\nCONFIG GET save\r\nSELECT 0\r\nQUIT\r\n",
    "MULTI\r\nCL.THROTTLE k 1 1 1\r\nTG.CHECK user 1\r\nEXEC\r\nMULTI\r\nnothing\r\nEXEC\r\nMULTI\r\nDISCARD\r\n",
    "*0\r\n*-1\r\n\r\n*1\r\n$0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// Words of the Redis protocol.
pub(crate) const RESP: &[&str] = &[
    "*1\r\n",
    "*2\r\n",
    "*129\r\n",
    "*-1\r\n",
    "$0\r\n\r\n",
    "$1\r\na\r\n",
    "$4\r\nPING\r\n",
    "$-1\r\n",
    "$4096\r\n",
    "$4097\r\n",
    "CL.THROTTLE a 1 1 1\r\n",
    "CL.THROTTLE a 1 1 1 0\r\n",
    "TG.CHECK user a\r\n",
    "TG.CHECK ",
    "header:x ",
    "cost ",
    "PING\r\n",
    "HELLO 3\r\n",
    "INFO\r\n",
    "QUIT\r\n",
    "MULTI\r\n",
    "EXEC\r\n",
    "\r\n",
    "\r",
    "\n",
    "\"",
    "'",
    "\\x4",
    "\\",
    " ",
    "\0",
    "*",
    "$",
    "-",
    "é",
];

/// Values of both headers.
pub(crate) const FORWARDED_LINES: &[&str] = &[
    "203.0.113.7",
    "6.6.6.6, 203.0.113.7, 127.0.0.1",
    "2001:db8::1, [::1]:80, 10.0.0.1:1234",
    "unknown, _hidden",
    "for=203.0.113.7",
    "for=\"[2001:db8::1]:4711\";proto=https;by=127.0.0.1, for=127.0.0.1",
    "For=\"_secret\", for=127.0.0.1;host=\"a, b\"",
    "for=1.1.1.1\nfor=127.0.0.1",
    "127.0.0.1\n127.0.0.1, 127.0.0.1",
    "for=\"a\\\"b\", for=\"127.0.0.1\"",
    "::ffff:203.0.113.7",
];

/// Words of both headers.
pub(crate) const FORWARDED: &[&str] = &[
    ",",
    ", ",
    ";",
    "for=",
    "For=",
    "for=127.0.0.1",
    "127.0.0.1",
    "203.0.113.7",
    "[::1]",
    "[2001:db8::1]:80",
    "::ffff:127.0.0.1",
    "\"",
    "\\\"",
    "\\\\",
    "\\",
    "unknown",
    "_hidden",
    ":4711",
    "proto=https",
    "=",
    "\n",
    " ",
    "\t",
    "\0",
    "é",
];

/// Request bodies in JSON.
pub(crate) const REQUESTS: &[&str] = &[
    "{}",
    "{\"user\":\"42\"}",
    "{\"tenant\":\"tenant-a\",\"user\":\"42\",\"client\":\"app\",\"ip\":\"203.0.113.7\",\"plan\":\"free\",\"method\":\"GET\"}",
    "{\"host\":\"api.example.com\",\"path\":\"/api/exports?x=1\",\"query\":\"q=a+b\",\"domain\":\"edge\",\"cost\":3}",
    "{\"headers\":{\"x-weight\":[\"7\",8],\"x-api-key\":\"k\"},\"jwt\":{\"sub\":\"42\"},\"descriptors\":{\"a\":\"b\"}}",
    "{\"user\":\"\\u00e9\\n\",\"trust\":0.5,\"cost\":0}",
    "{\"ip\":\"::ffff:10.0.0.1\",\"headers\":null}",
    "{\"user\":\"666\"}",
    "{\"path\":\"//a/../%2e/%6c\"}",
    "[]",
    "{\"cost\":4294967295}",
    // A header name with an escape, which must be unescaped for each of its values.
    "{\"headers\":{\"\\u0061b\":[1,1,1,1,1,1,1,1]},\"jwt\":{\"\\n\":[\"a\",true]}}",
];

/// Costs.
pub(crate) const COSTS: &[&str] = &[
    "1",
    "0",
    "7",
    "42",
    "4999",
    "5000",
    "5001",
    "-1",
    "+1",
    "1.5",
    "NaN",
    "inf",
    "1e400",
    "18446744073709551616",
    " 12 ",
    "0012",
    "1,2",
    "0x10",
    "4294967295",
    "4294967296",
];

/// Words of costs.
pub(crate) const COST: &[&str] = &[
    "0", "9", "-", "+", ".", "e", "NaN", "inf", " ", "\t", ",", "_", "00", "5000", "\0", "\u{661}", "\u{a0}",
    "\"", "}",
];

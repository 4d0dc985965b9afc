"""The boundary between Python and the one native library: loader, argument checks, errors, the C ABI's header."""

// The engine, as one file: its parts share their headers, whose reading is most of what compiling them costs.
#include "blocks.cpp"
#include "copies.cpp"
#include "hopper.cpp"
#include "memory.cpp"
#include "runtime.cpp"
#include "traffic.cpp"

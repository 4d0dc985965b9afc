// C = A B, row-major, on Hopper's tensor cores: float16 and bfloat16 (sums in float32, C in the inputs' type), int8 (sums
// and C in int32) and float8_e4m3fn (sums and C in float32). A is m x k, B is k x n, C is m x n. CUDA, compute capability
// 9.0: compiled for sm_90a alone. matmul_tensor.cu calls it for large enough matrices that TMA can read (hopper.h), and
// multiplies the rest, but for float8_e4m3fn.
//
// Cost: 2 m n k operations; each matrix crosses memory at least once: s (m k + k n) + t m n bytes, s of an
// item of A and B, t of C.
// Versions. The first four were written without a GPU: what each alone is said to bring is what is expected of it.
//   1  wgmma of 64 x 256 x 32 bytes, from stages that TMA fills: no thread loads, addresses or holds a factor. Blocks go from tile to tile, and stages fill for the next while
//      sums are stored. Clusters of two load half of B each, for both: 1024 clocks of the tensor cores ask the
//      second-level cache for 32 bytes a clock and multiprocessor, not 48
//   2  tiles of 192 and 128, too, where they fill a device better (hopper_plan): of 66 clusters, 1536 x 1536 x 1536
//      takes 48 for seven eighths of the time that 36 take with 256
//   3  the last round's tiles by two blocks each, half of k each, where clusters would be idle: 1024 x 1024 x 1024
//      takes four fifths of the time. Replaced by version 6
//   4  int8, B by way of registers, where ldmatrix and __byte_perm transpose it: one of each per 8 x 2 items and thread. On an
//      H200, 4096^3: bfloat16 263 us, int8 139; matmul_tensor.cu's mma.sync 402 and 346
//   5  a warp that releases a stage waits for no fence of the device (hopper_ptx.h, arrive). There bfloat16 177 us,
//      int8 97; cuBLAS 175 and 1092. Then the power limit of 700 W holds the clock at 1.7 GHz
//   6  the last round's tiles in equal shares of k for all clusters (hopper_work.h, stream-K), where the estimate says so:
//      1536 x 1536 x 8192 by 66 clusters takes .76 of the clocks. 1536 x 1536 x 1536 stays with 48 whole pairs: to send
//      sums costs what the idle clusters would save. An estimate: unmeasured
//   7  float8_e4m3fn, as int8. Unmeasured
// Products are exact; their sums are in the order and with the rounding of the tensor cores. Of float8_e4m3fn these
// keep about 14 bits from one product of 32 steps of k to the next (DeepSeek-AI, DeepSeek-V3 Technical Report, 2024,
// section 3.3.2), as cuBLAS's do with fast accumulation. Sums of int8 wrap around beyond int32, which takes k of more
// than 131071.
#include "hopper_launch.h"

KV_HOPPER_KERNELS(kv_matmul_float16, kv::Float16, kv::Plain)
KV_HOPPER_KERNELS(kv_matmul_bfloat16, kv::Bfloat16, kv::Plain)
KV_HOPPER_KERNELS(kv_matmul_int8, int8_t, kv::Plain)
KV_HOPPER_KERNELS(kv_matmul_float8_e4m3fn, kv::Float8, kv::Plain)

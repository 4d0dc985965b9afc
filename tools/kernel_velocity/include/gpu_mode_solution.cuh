// Lets `kv compare` call and time a solution of a GPU MODE task in CUDA: nvcc reads it before the solution's own file.
//
// The time is that of `custom_kernel` on inputs that are moved into it, until the device is idle, as GPU MODE takes it.
#include <exception>
#include <memory>
#include <string>
#include <utility>

// clang-format off
#include "utils.h"
#include "task.h"
// clang-format on
#include "kernel_velocity.h"

output_t custom_kernel(input_t data);

namespace kv {
inline std::string task_failed;
}

extern "C" {
const char* kv_task_failed() { return kv::task_failed.c_str(); }
void kv_task_free_output(void* output) { delete static_cast<output_t*>(output); }
// Returns null where it throws. `kv_task_failed` says what.
void* kv_task_solve(void* input) {
    auto output = std::make_unique<output_t>();
    try {
        kv::region_manually([&] {
            input_t data = *static_cast<input_t*>(input);
            const kv::Timer timer;
            output_t result = custom_kernel(std::move(data));
            const double seconds = timer.seconds();
            *output = std::move(result);
            return seconds;
        });
        return output.release();
    } catch (const std::exception& error) {
        kv::task_failed = error.what();
    } catch (...) {
        kv::task_failed = "an exception of another type than std::exception";
    }
    return nullptr;
}
}

// Lets `kv compare` call a task of GPU MODE in CUDA (`lang: cu`): its inputs, its reference and its check.
//
// nvcc compiles it with the task's own task.h, utils.h and reference.cuh. problem/gpu_mode_cuda.py is the other side.
// Inputs and outputs lie in host memory, and are vectors, arrays, tuples and pairs of numbers, nested in any way.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// clang-format off
#include "utils.h"
#include "reference.cuh"
// clang-format on

namespace kv {
// Elements that lie one after the other, or a number. `kind` is a position in KINDS of gpu_mode_cuda.py.
struct Leaf {
    const void* data;
    std::int64_t count;
    std::int32_t kind, is_number;
};
}  // namespace kv

namespace {

using kv::Leaf;

template <class T>
constexpr std::int32_t kind_of() {
    const bool kinds[] = {std::is_same_v<T, float>,
                          std::is_same_v<T, double>,
                          std::is_same_v<T, __half>,
                          std::is_same_v<T, __nv_bfloat16>,
                          std::is_same_v<T, bool>,
                          std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 1,
                          std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 2,
                          std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 4,
                          std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8,
                          std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 1,
                          std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 2,
                          std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 4,
                          std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == 8};
    for (std::int32_t kind = 0; kind < 13; ++kind)
        if (kinds[kind]) return kind;
    return -1;
}

template <class T, class = void>
struct has_elements : std::false_type {};
template <class T>
struct has_elements<T, std::void_t<typename T::value_type, decltype(std::declval<T&>().begin())>>
    : std::true_type {};

// Shows a visitor each leaf of a value, in order.
template <class T, class Visitor>
void visit(T& value, Visitor& visitor) {
    if constexpr (kind_of<T>() >= 0) {
        visitor.number(value);
    } else if constexpr (has_elements<T>::value) {
        static_assert(!std::is_same_v<T, std::vector<bool>>,
                      "kv: a std::vector<bool> has no elements in memory");
        if constexpr (kind_of<typename T::value_type>() >= 0)
            visitor.list(value);
        else
            for (auto& part : value) visit(part, visitor);
    } else {
        std::apply([&](auto&... parts) { (visit(parts, visitor), ...); }, value);
    }
}

struct Reader {
    std::vector<Leaf> leaves;
    template <class T>
    void number(T& value) {
        leaves.push_back({&value, 1, kind_of<T>(), 1});
    }
    template <class T>
    void list(T& values) {
        leaves.push_back({values.data(), std::int64_t(values.size()), kind_of<typename T::value_type>(), 0});
    }
};

struct Writer {
    const Leaf* next;
    template <class T>
    void number(T& value) {
        std::memcpy(&value, (next++)->data, sizeof value);
    }
    template <class T>
    void list(std::vector<T>& values) {
        const T* begin = static_cast<const T*>(next->data);
        values.assign(begin, begin + (next++)->count);
    }
    template <class T, std::size_t N>
    void list(std::array<T, N>& values) {
        if (std::size_t(next->count) != N)
            throw std::string("an array of " + std::to_string(N) + " is wanted");
        std::memcpy(values.data(), (next++)->data, sizeof values);
    }
};

thread_local std::string failed;  // why the last call returned null, or what the check says

template <class F>
auto guarded(F&& work) -> decltype(work()) {
    failed.clear();
    try {
        return work();
    } catch (const std::exception& error) {
        failed = error.what();
    } catch (const std::string& error) {
        failed = error;
    } catch (...) {
        failed = "an exception of another type than std::exception";
    }
    if (failed.empty()) failed = "an exception without a message";
    return {};
}

template <class T>
std::int64_t leaves_of(void* value, Leaf* leaves, std::int64_t most) {
    Reader reader;
    visit(*static_cast<T*>(value), reader);
    for (std::int64_t i = 0; i < most && i < std::int64_t(reader.leaves.size()); ++i)
        leaves[i] = reader.leaves[i];
    return reader.leaves.size();
}

template <class T>
void* with_leaves(void* like, const Leaf* leaves) {
    return guarded([&]() -> void* {
        auto value = std::make_unique<T>(*static_cast<T*>(like));
        Writer writer{leaves};
        visit(*value, writer);
        return value.release();
    });
}

template <class T>
void assign(T& target, const char* text) {
    if constexpr (std::is_same_v<T, std::string>)
        target = text;
    else
        target = static_cast<T>(std::stoll(text));
}

template <class R, class... Args, std::size_t... Indices>
void* input_of(R (*generate)(Args...), const char* const* values, std::index_sequence<Indices...>) {
    static_assert(sizeof...(Args) == ArgumentNames.size(),
                  "kv: ArgumentNames does not name generate_input's arguments");
    std::tuple<std::decay_t<Args>...> arguments;
    (assign(std::get<Indices>(arguments), values[Indices]), ...);
    return new input_t(generate(std::get<Indices>(arguments)...));
}

}  // namespace

extern "C" {
const char* kv_task_failed() { return failed.c_str(); }
const char* kv_task_argument(std::int64_t i) {
    return i < std::int64_t(ArgumentNames.size()) ? ArgumentNames[i] : nullptr;
}
void* kv_task_input(const char* const* values) {
    return guarded(
        [&] { return input_of(&generate_input, values, std::make_index_sequence<ArgumentNames.size()>()); });
}
std::int64_t kv_task_input_leaves(void* input, Leaf* leaves, std::int64_t most) {
    return leaves_of<input_t>(input, leaves, most);
}
std::int64_t kv_task_output_leaves(void* output, Leaf* leaves, std::int64_t most) {
    return leaves_of<output_t>(output, leaves, most);
}
void* kv_task_input_with(void* like, const Leaf* leaves) { return with_leaves<input_t>(like, leaves); }
void* kv_task_output_with(void* like, const Leaf* leaves) { return with_leaves<output_t>(like, leaves); }
void kv_task_free_input(void* input) { delete static_cast<input_t*>(input); }
void kv_task_free_output(void* output) { delete static_cast<output_t*>(output); }
void* kv_task_reference(void* input) {
    return guarded([&]() -> void* { return new output_t(ref_kernel(*static_cast<input_t*>(input))); });
}
// Returns 1 for right. Otherwise `kv_task_failed` says why.
std::int32_t kv_task_check(void* input, void* output) {
    return guarded([&]() -> std::int32_t {
        TestReporter reporter;
        check_implementation(reporter, *static_cast<input_t*>(input), *static_cast<output_t*>(output));
        if (reporter.has_passed()) return 1;
        failed = reporter.message();
        return 0;
    });
}
}

// Times C++ and CUDA from inside. One header, C++17, no library.
//
// A solution marks the region of itself that `kv compare --solution` times, in place of the whole call:
//
//     extern "C" void solution(const float *x, float *out, size_t n) {
//         float *scratch = prepare(n);                    // not timed
//         kv::region([&] { kernel(x, scratch, out, n); }); // a hot loop, by the clock
//         release(scratch);
//     }
//
// `kv::region_manually` takes the time of an iteration from the iteration, which returns it in seconds. It may take it
// from a `kv::Timer`. Under nvcc the clock is read when the device is idle. When results are checked, the region runs
// once, else as often as the clock needs.
//
// A program of its own writes Google Benchmark's JSON: `kv ingest --google-benchmark FILE` makes series of it.
//
//     #include "kernel_velocity.h"
//
//     int main(int argc, char **argv) {
//         kv::Suite suite(argc, argv); // --out FILE, --repetitions 8, --seconds .02
//         suite.time("saxpy/1024", [&] { saxpy(1024, 2.f, x, y); kv::keep(y); });
//         suite.time_manually("saxpy_gpu/1024", [&] { return seconds_by_events(); });
//         return suite.write();
//     }
//
// A repetition is a hot loop: as many calls in a row as take --seconds, after one call to warm up. Its time is the mean.
#ifndef KERNEL_VELOCITY_H
#define KERNEL_VELOCITY_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace kv {

// Has the compiler compute a value and what it points to, though nothing reads it.
template <class T>
inline void keep(const T& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

// Has the compiler write everything to memory, and read it again.
inline void clobber() { asm volatile("" : : : "memory"); }

// What a solution and `kv compare` tell one another. A library has it if it has a region.
struct RegionState {
    std::int64_t warmups, iterations;  // asked for, of a region
    std::int64_t entered;              // regions of the call
    double seconds;                    // of their iterations, without warm-ups
};
extern "C" {
inline RegionState kv_region = {0, 1, 0, 0};
}

// Time since it was made, in seconds.
class Timer {
  public:
    Timer() : began_(now()) {}
    double seconds() const { return std::chrono::duration<double>(now() - began_).count(); }

  private:
    static std::chrono::steady_clock::time_point now() {
#ifdef __CUDACC__
        cudaDeviceSynchronize();
#endif
        return std::chrono::steady_clock::now();
    }
    std::chrono::steady_clock::time_point began_;
};

// Return the seconds of so many calls: by the clock, or as the calls return them.
template <class F>
double by_clock(std::int64_t calls, F&& call) {
    const Timer timer;
    for (std::int64_t i = 0; i < calls; ++i) call();
    return timer.seconds();
}
template <class F>
double by_call(std::int64_t calls, F&& call) {
    double seconds = 0;
    for (std::int64_t i = 0; i < calls; ++i) seconds += call();
    return seconds;
}

template <class F>
void region(F&& iteration) {
    by_clock(kv_region.warmups, iteration);
    kv_region.seconds += by_clock(kv_region.iterations, iteration);
    ++kv_region.entered;
}
template <class F>
void region_manually(F&& iteration) {
    by_call(kv_region.warmups, iteration);
    kv_region.seconds += by_call(kv_region.iterations, iteration);
    ++kv_region.entered;
}

class Suite {
  public:
    Suite(int argc, char** argv) : executable_(argv[0]) {
        for (int i = 1; i < argc; i += 2) {
            const std::string option = argv[i], text = i + 1 < argc ? argv[i + 1] : "";
            char* end = nullptr;
            const double number = std::strtod(text.c_str(), &end);
            const bool is_positive = !text.empty() && *end == '\0' && number > 0;
            if (option == "--out" && !text.empty())
                out_ = text;
            else if (option == "--repetitions" && is_positive && number == static_cast<long>(number))
                repetitions_ = static_cast<long>(number);
            else if (option == "--seconds" && is_positive)
                seconds_ = number;
            else {
                std::cerr << "error: " << option << " " << text
                          << ": --out FILE, --repetitions NUMBER or --seconds NUMBER is wanted\n";
                std::exit(2);
            }
        }
    }

    // Times `call()` by the steady clock.
    template <class F>
    void time(const std::string& name, F&& call) {
        measure(name, [&](long calls) { return by_clock(calls, call); });
    }

    // Takes the time of a call from the call itself, which returns it in seconds, as one on a GPU knows it by events.
    template <class F>
    void time_manually(const std::string& name, F&& call) {
        measure(name, [&](long calls) { return by_call(calls, call); });
    }

    // Writes the file that --out names, else standard output. Returns the exit status of the program.
    int write() const {
        if (out_.empty()) {
            std::cout << text();
            return std::cout ? 0 : 2;
        }
        std::ofstream file(out_);
        file << text();
        file.close();
        if (!file) std::cerr << "error: --out " << out_ << ": cannot be written\n";
        return file ? 0 : 2;
    }

  private:
    // `loop(calls)` makes so many calls and returns the seconds of all.
    template <class Loop>
    void measure(const std::string& name, Loop&& loop) {
        const std::string common =
            "\"name\": " + quoted(name) + ", \"run_name\": " + quoted(name) +
            ", \"run_type\": \"iteration\", \"repetitions\": " + std::to_string(repetitions_);
        try {
            loop(1);
            long calls = 1;
            for (double took = loop(1); took < seconds_ && calls < MOST; took = loop(calls))
                calls =
                    took > seconds_ / 10 ? static_cast<long>(calls * 1.2 * seconds_ / took) + 1 : calls * 10;
            for (long i = 0; i < repetitions_; ++i)
                entries_.push_back(common + times(i, calls, loop(calls) / static_cast<double>(calls)));
        } catch (const std::exception& error) {
            const std::string why = ", \"error_occurred\": true, \"error_message\": " + quoted(error.what());
            entries_.push_back(common + why + times(0, 0, 0));
        }
    }

    static std::string times(long index, long calls, double seconds) {
        std::ostringstream text;
        text.precision(std::numeric_limits<double>::max_digits10);
        text << ", \"repetition_index\": " << index << ", \"threads\": 1, \"iterations\": " << calls
             << ", \"real_time\": " << 1e9 * seconds << ", \"cpu_time\": " << 1e9 * seconds
             << ", \"time_unit\": \"ns\"";
        return text.str();
    }

    std::string text() const {
        char date[32] = "";
        const std::time_t now = std::time(nullptr);
        std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S+00:00", std::gmtime(&now));
        std::ostringstream text;
        text << "{\n\"context\": {\"date\": \"" << date << "\", \"executable\": " << quoted(executable_)
             << ", \"num_cpus\": " << std::thread::hardware_concurrency()
             << ", \"caches\": [], \"library_build_type\": \"release\", \"json_schema_version\": "
                "1},\n\"benchmarks\": [";
        for (std::size_t i = 0; i < entries_.size(); ++i) text << (i ? ",\n{" : "\n{") << entries_[i] << "}";
        text << "\n]\n}\n";
        return text.str();
    }

    static std::string quoted(const std::string& text) {
        std::string json = "\"";
        for (const char c : text) {
            char escape[8] = {c, '\0'};
            if (c == '"' || c == '\\')
                std::snprintf(escape, sizeof escape, "\\%c", c);
            else if (static_cast<unsigned char>(c) < 0x20)
                std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
            json += escape;
        }
        return json + "\"";
    }

    static constexpr long MOST =
        1'000'000'000;  // calls of a repetition: what takes no time at all ends there
    std::string executable_, out_;
    long repetitions_ = 8;
    double seconds_ = 0.02;
    std::vector<std::string> entries_;
};

}  // namespace kv

#endif

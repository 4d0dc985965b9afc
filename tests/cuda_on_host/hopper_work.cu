// How a product is shared out among clusters (kernels/matmul/hopper_work.h), for test_hopper_work.py.
#include "kernels/matmul/hopper_work.h"

// Writes for each job: cluster, pair, first pass, passes, share; and before them the plan's passes, pairs, whole pairs,
// shares, clusters that are launched. Returns how many numbers there are, at most `room`.
extern "C" int jobs_of_product(int bytes, int wide, int64_t m, int64_t n, int64_t k, int processors, int* to,
                               int room) {
    const kv::HopperPlan plan = bytes == 1 ? kv::hopper_plan<int8_t>(wide, m, n, k, processors)
                                           : kv::hopper_plan<int16_t>(wide, m, n, k, processors);
    const kv::HopperWork& work = plan.work;
    int count = 0;
    const auto put = [&](int number) {
        if (count < room) to[count] = number;
        ++count;
    };
    for (const int number : {work.passes, work.pairs, work.whole, work.shares, plan.clusters()}) put(number);
    for (int cluster = 0; cluster < plan.clusters(); ++cluster) {
        kv::HopperJobs jobs;
        kv::HopperJob job;
        while (jobs.next(work, cluster, job) && count < room)
            for (const int number : {cluster, job.pair, job.first, job.passes, job.share}) put(number);
    }
    return count;
}

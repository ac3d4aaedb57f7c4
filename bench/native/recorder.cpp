// What one entry of the flight recorder costs the thread that issues an operation: begun with the sizes of one tensor on
// each side, and ended. Prints nanoseconds of thread CPU time, the least of all rounds. Argument: a path for the ring.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include "recorder/ring.h"

using namespace pycomms::recorder;

namespace {

constexpr int kRounds = 50, kEntries = 20'000;

double thread_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: recorder_bench PATH\n");
    return 1;
  }
  RingOptions options;
  options.path = argv[1];
  auto made = Ring::create(options);
  if (!made.is_ok()) {
    std::fprintf(stderr, "%s\n", made.status().message().c_str());
    return 1;
  }
  unlink(argv[1]);
  Ring& ring = *made.value();
  const std::vector<int64_t> shape = {1024, 16};
  Issue issue;
  issue.group = ring.add_group({});
  issue.starts_now = true;
  double least = 1e18;
  for (int round = 0; round < kRounds; ++round) {
    const double start = thread_ns();
    for (int i = 0; i < kEntries; ++i) {
      Sizes sizes;
      for (int side = 0; side < 2; ++side) {
        sizes.begin(1);
        sizes.tensor(6, shape);
      }
      sizes.begin(0);
      sizes.begin(0);
      ++issue.sequence;
      ring.begin(issue, sizes).end(State::kCompleted, pycomms::now_ns());
    }
    least = std::min(least, (thread_ns() - start) / kEntries);
  }
  std::printf("%.1f\n", least);
  return 0;
}

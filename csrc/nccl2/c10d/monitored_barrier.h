// The messages of monitored_barrier, in the words that users of gloo know. Pure. Must not know: communicators.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "nccl2/core/error.h"

namespace pycomms::c10d_backend {

// `timed_out` with a message that names the ranks that did not come. The first rank reports them; the others came and
// point to the first one. Without `wait_all_ranks` only the lowest is named.
inline Error describe_missing(const Error& timed_out, int rank, int64_t timeout_ns, std::vector<int> missing,
                              bool wait_all_ranks) {
  ErrorDetail detail = timed_out.detail();
  const std::string limit = std::to_string(timeout_ns / kMillisecond) + " ms";
  detail.op = "monitored_barrier";
  if (missing.size() > 1 && !wait_all_ranks) missing.resize(1);
  if (rank != 0) {
    detail.message =
        "Rank " + std::to_string(rank) +
        " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
        "Please check rank 0 logs for faulty rank.";
  } else if (missing.empty()) {
    detail.message = "Rank " + std::to_string(rank) + " timed out in monitoredBarrier after " + limit + ".";
  } else {
    std::string ranks;
    for (const int each : missing) ranks += (ranks.empty() ? "" : ", ") + std::to_string(each);
    detail.message = (missing.size() > 1 ? "Ranks " : "Rank ") + ranks + " failed to pass monitoredBarrier in " + limit;
  }
  detail.ranks = std::move(missing);
  return Error(std::move(detail));
}

}  // namespace pycomms::c10d_backend

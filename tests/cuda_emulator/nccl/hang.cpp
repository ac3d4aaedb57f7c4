#include "hang.h"

#include "base/futex.h"
#include "device_runtime.h"
#include "refusal.h"

namespace nccl_emulator {
namespace {

constexpr int64_t kLongestOnStream = 600 * pycomms::kSecond;
constexpr int64_t kLongestInCall = 60 * pycomms::kSecond;

void wait_for(Release& release, int64_t longest) {
  const auto deadline = pycomms::Deadline::after(longest);
  while (release.flag.load(std::memory_order_acquire) == 0 && !deadline.passed()) {
    pycomms::futex_wait(release.flag, 0, deadline.left());
  }
}

}  // namespace

Result hang(StreamHandle stream, std::shared_ptr<Release> release) {
  const auto work = [release = std::move(release)] { wait_for(*release, kLongestOnStream); };
  if (!launch(stream, "an operation that hangs", work)) {
    return refuse(nccl_abi::kUnhandledCudaError, "the stream did not take the operation");
  }
  return nccl_abi::kSuccess;
}

Result block_for_ever(const std::shared_ptr<Release>& release) {
  wait_for(*release, kLongestInCall);
  return refuse(nccl_abi::kInternalError, "a test has ordered that this call stays in progress for ever");
}

}  // namespace nccl_emulator

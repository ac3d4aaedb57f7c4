#include "making.h"

#include "base/thread.h"
#include "group.h"
#include "hang.h"
#include "refusal.h"

namespace nccl_emulator {
namespace {

// The end of a job, for whoever waits.
struct Ending {
  std::atomic<uint32_t> over{0};
  Result result = nccl_abi::kInProgress;
  std::string text;

  void set(Result r) {
    result = r;
    text = last_error();
    over.store(1, std::memory_order_seq_cst);
    pycomms::futex_wake_all(over);
  }
  Result wait() {  // the job has a deadline
    while (over.load(std::memory_order_acquire) == 0) pycomms::futex_wait(over, 0, pycomms::kSecond);
    return result == nccl_abi::kSuccess ? result : refuse(result, text);
  }
};

void run(const Making& making, Ending& ending) {
  // The parent's members are asked through its inner communicator: it must not go away meanwhile.
  Result result;
  if (making.parent == nullptr) {
    result = making.job(making.child.get());
  } else {
    const pycomms::GateHolder inside(making.parent->gate());
    result = inside ? making.job(making.child.get())
                    : refuse(nccl_abi::kInvalidUsage, "the communicator was closed meanwhile");
  }
  if (making.child != nullptr) making.child->settle(result);
  if (making.parent != nullptr) making.parent->end_call();
  ending.set(result);
}

std::shared_ptr<Ending> start(const Making& making) {
  auto ending = std::make_shared<Ending>();
  if (making.parent != nullptr) making.parent->begin_call();
  auto thread = pycomms::start_thread("nccl-making", [making, ending] { run(making, *ending); });
  if (thread.is_ok()) {
    thread.value().detach();  // it owns all that it uses, and its deadline ends it
  } else {
    const Result result = refuse(nccl_abi::kSystemError, thread.status().message());
    if (making.child != nullptr) making.child->settle(result);
    if (making.parent != nullptr) making.parent->end_call();
    ending->set(result);
  }
  return ending;
}

// Null: it has not begun, and is in progress.
std::shared_ptr<Ending> begin(const Making& making) {
  const std::optional<int64_t> polls = next_stall(making.point);
  if (!polls.has_value() || (making.is_blocking && *polls >= 0)) return start(making);
  const auto give_up = [child = making.child] {
    if (child != nullptr) child->settle(refuse(nccl_abi::kInternalError, "given up before it had begun"));
  };
  const auto stall = std::make_shared<Stall>(*polls, [making] { start(making); }, give_up);
  if (making.child != nullptr) making.child->stall(stall);
  if (making.parent != nullptr) making.parent->stall(stall);
  return nullptr;
}

Result finish(const Making& making, Ending* ending) {
  if (!making.is_blocking) return nccl_abi::kInProgress;
  if (ending != nullptr) return ending->wait();
  return block_for_ever((making.child != nullptr ? making.child : making.parent)->release());
}

}  // namespace

Result make(Making making) {
  if (Group* group = open_group()) {
    group->makings.push_back(std::move(making));
    return nccl_abi::kSuccess;
  }
  std::vector<Making> one;
  one.push_back(std::move(making));
  return make_all(std::move(one));
}

Result make_all(std::vector<Making> makings) {
  std::vector<std::shared_ptr<Ending>> endings;
  for (const Making& making : makings) endings.push_back(begin(making));
  Result first = nccl_abi::kSuccess;
  for (size_t i = 0; i < makings.size(); ++i) {
    const Result result = finish(makings[i], endings[i].get());
    if (first == nccl_abi::kSuccess || first == nccl_abi::kInProgress) {
      if (result != nccl_abi::kSuccess) first = result;
    }
  }
  return first;
}

}  // namespace nccl_emulator

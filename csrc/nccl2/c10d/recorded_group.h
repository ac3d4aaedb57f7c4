// Records the operations of a process group of any backend, through the hooks that torch >= 2.14 calls around each: what
// the hooks tell, and when the Work ends. What they do not tell (reductions, tags, splits) is not recorded.
// Any thread. Must not know: which backend it is.
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <memory>
#include <set>

#include "recorder/ring.h"

namespace pycomms::c10d_backend {

#ifdef C10D_BACKEND_HAS_HOOKS
inline constexpr bool kHasHooks = true;

class RecordedGroup : public std::enable_shared_from_this<RecordedGroup> {
 public:
  // recorded_elsewhere: operations on tensors of these devices have entries already.
  RecordedGroup(recorder::Ring& ring, const recorder::GroupInfo& group, std::set<c10::DeviceType> recorded_elsewhere)
      : ring_(ring),
        group_(ring.add_group(group)),
        late_(group.is_late ? recorder::kLate : uint16_t{0}),
        recorded_elsewhere_(std::move(recorded_elsewhere)) {}
  ~RecordedGroup() { ring_.leave_group(group_); }
  RecordedGroup(const RecordedGroup&) = delete;
  RecordedGroup& operator=(const RecordedGroup&) = delete;

  // Its operations are entries from now on. Not beside operations of the group.
  void attach_to(::c10d::ProcessGroup& group, int64_t hook);
  static void detach_from(::c10d::ProcessGroup& group, int64_t hook);

 private:
  bool is_recorded_elsewhere(const ::c10d::PreHookArgs& args) const;
  void before(const ::c10d::PreHookArgs& args);
  void after(const ::c10d::PostHookArgs& args);

  recorder::Ring& ring_;
  const uint32_t group_;
  const uint16_t late_;  // a flag of all its entries
  const std::set<c10::DeviceType> recorded_elsewhere_;
  std::atomic<uint32_t> collectives_{0};  // that were issued
};
#else
inline constexpr bool kHasHooks = false;
#endif

}  // namespace pycomms::c10d_backend

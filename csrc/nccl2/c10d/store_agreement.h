// Members of a group that may be broken agree over a store that they go on: all of them are there, want the same, and learn
// what all can do. The first of them decides.
// By one thread of each member at a time; every wait has the caller's deadline. Must not know: communicators.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

#include "base/clock.h"
#include "nccl2/core/error.h"

namespace pycomms::c10d_backend {

class StoreAgreement {
 public:
  struct Parties {
    std::string group;         // whose members they are
    std::vector<int> members;  // those that take part, as ranks of it
    int rank = 0;              // of this one
  };
  struct Decision {
    bool all_can = false;
    std::string name;  // of what is made by it; no other decision has it
  };

  // what: names the step in messages and keys.
  StoreAgreement(c10::intrusive_ptr<::c10d::Store> store, Parties parties, std::string what)
      : store_(std::move(store)), parties_(std::move(parties)), what_(std::move(what)) {}

  // proposal: what this member wants, the same on all. can: whether this member can do it the better way. On an error
  // nothing is decided, or a member has gone since; another try may succeed.
  Error decide(const std::string& proposal, bool can, bool (*interrupted)(), Deadline deadline, Decision* decision);
  Error failed_elsewhere() const {
    return error(ErrorKind::kSystem, {}, "another member failed in it, and its error says why");
  }

 private:
  struct Note;

  Error lead(const Note& mine, Decision* decision);
  Error follow(const Note& mine, Decision* decision);
  template <typename Look, typename Absent>
  Error until(Look&& look, Absent&& absent_now);
  Note read(int rank);
  void write(int rank, const Note& note);
  std::vector<int> others_without(const std::string& state, const std::string& nonce = {});
  std::vector<int> others_unlike(const std::string& proposal);
  Error error(ErrorKind kind, std::vector<int> ranks, const std::string& text) const;
  std::string key(const std::string& name) const { return "pycomms/" + parties_.group + "/" + what_ + "/" + name; }

  const c10::intrusive_ptr<::c10d::Store> store_;
  const Parties parties_;
  const std::string what_;
  bool (*interrupted_)() = nullptr;
  Deadline deadline_ = Deadline::after(0);
};

}  // namespace pycomms::c10d_backend

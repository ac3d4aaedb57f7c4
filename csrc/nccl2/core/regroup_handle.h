// How a group's member names itself for a regroup: "nccl2:<format>:<nonce>:<rank>:<uuid>:<address>". Handles travel by whatever
// way the program has. Those who are given the same ones put them in the same order, and can prove it by a digest.
// Pure functions. Must not know: engines, what an address means.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace pycomms {

inline constexpr int kHandleFormat = 1;

struct RegroupHandle {
  std::string nonce;  // 32 hexadecimal digits: of the group's object in its process
  int rank = 0;       // when the handle was given out
  int64_t uuid = -1;  // of the regroup that had made the group then; -1: none
  std::string address;

  bool operator==(const RegroupHandle&) const = default;
};

std::string to_text(const RegroupHandle& handle);
// Strict: what to_text() has not written is refused, and the error says where.
Result<RegroupHandle> parse_handle(const std::string& text);

// The members of a new group.
struct Membership {
  int64_t uuid = 0;
  std::vector<RegroupHandle> members;  // by their new ranks
  int rank = 0;                        // of this process

  int size() const { return static_cast<int>(members.size()); }
  // What only those know who were given the handles, and what must be the same on all of them.
  std::string secret() const { return members.front().nonce + ":" + std::to_string(uuid); }
  std::string agenda() const;
};

// by_position: the handles are in the order of the new ranks; otherwise they are ordered by old rank, then nonce.
Result<Membership> make_membership(int64_t uuid, const std::vector<std::string>& handles, bool by_position,
                                   const std::string& own_nonce);

std::string fresh_nonce();

}  // namespace pycomms

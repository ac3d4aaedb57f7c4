#include "nccl2/core/regroup_handle.h"

#include <algorithm>
#include <charconv>
#include <random>
#include <tuple>

namespace pycomms {
namespace {

constexpr size_t kNonceDigits = 32;
constexpr char kDigits[] = "0123456789abcdef";
constexpr std::string_view kName = "nccl2";

bool is_nonce(std::string_view text) {
  return text.size() == kNonceDigits && text.find_first_not_of(kDigits) == std::string_view::npos;
}

// Written as to_string() would: no sign but '-', no zeros in front.
template <typename Integer>
bool read_number(std::string_view text, Integer* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size() && std::to_string(*number) == text;
}

// Long texts are of no use to whoever reads the error.
std::string shown(const std::string& text) {
  constexpr size_t kShown = 200;
  return "'" + (text.size() <= kShown ? text : text.substr(0, kShown) + "...") + "'";
}

Status wrong(const std::string& text, const std::string& what) {
  return Status(Code::kInvalidArgument, "the handle " + shown(text) + " is malformed: " + what);
}

}  // namespace

std::string to_text(const RegroupHandle& handle) {
  return std::string(kName) + ":" + std::to_string(kHandleFormat) + ":" + handle.nonce + ":" +
         std::to_string(handle.rank) + ":" + std::to_string(handle.uuid) + ":" + handle.address;
}

Result<RegroupHandle> parse_handle(const std::string& text) {
  std::vector<std::string> fields;
  size_t at = 0;
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', at)) {
    fields.push_back(text.substr(at, colon - at));
    at = colon + 1;
  }
  fields.push_back(text.substr(at));
  if (fields[0] != kName) return wrong(text, "it does not begin with 'nccl2:'");
  int format = 0;
  if (fields.size() < 2 || !read_number(fields[1], &format)) {
    return wrong(text, "no number of a format follows 'nccl2:'; is it of another library?");
  }
  if (format != kHandleFormat) {
    return wrong(text, "its format is " + fields[1] + ", this version reads " + std::to_string(kHandleFormat) +
                           ": all members need the same version");
  }
  if (fields.size() != 6) return wrong(text, "it has " + std::to_string(fields.size()) + " fields, expected 6");
  RegroupHandle handle{fields[2], 0, 0, fields[5]};
  if (!is_nonce(handle.nonce)) return wrong(text, "the nonce is not 32 hexadecimal digits");
  if (!read_number(fields[3], &handle.rank) || handle.rank < 0)
    return wrong(text, "the rank is not a number from 0 on");
  if (!read_number(fields[4], &handle.uuid)) return wrong(text, "the uuid is not a 64-bit number");
  if (handle.address.empty()) return wrong(text, "it has no address");
  return handle;
}

std::string Membership::agenda() const {
  std::string text = std::to_string(uuid);
  for (const RegroupHandle& member : members) text += " " + to_text(member);
  return text;
}

Result<Membership> make_membership(int64_t uuid, const std::vector<std::string>& handles, bool by_position,
                                   const std::string& own_nonce) {
  if (handles.empty()) return Status(Code::kInvalidArgument, "there are no handles: give one per member");
  Membership group;
  group.uuid = uuid;
  for (const std::string& text : handles) {
    Result<RegroupHandle> handle = parse_handle(text);
    if (!handle.is_ok()) return handle.status();
    group.members.push_back(handle.take());
  }
  auto older = [](const RegroupHandle& a, const RegroupHandle& b) {
    return std::tie(a.rank, a.nonce) < std::tie(b.rank, b.nonce);
  };
  if (!by_position) std::sort(group.members.begin(), group.members.end(), older);
  for (size_t i = 0; i < group.members.size(); ++i) {
    const auto same = [&](const RegroupHandle& other) { return other.nonce == group.members[i].nonce; };
    if (std::count_if(group.members.begin(), group.members.end(), same) == 1) continue;
    return Status(Code::kInvalidArgument, "the handle " + shown(to_text(group.members[i])) +
                                              ", or another one of the same member, is given twice");
  }
  const auto own = [&](const RegroupHandle& member) { return member.nonce == own_nonce; };
  const auto me = std::find_if(group.members.begin(), group.members.end(), own);
  if (me == group.members.end()) {
    return Status(Code::kInvalidArgument, "this process's own handle is not among the " +
                                              std::to_string(handles.size()) +
                                              " handles: only members of the new group regroup");
  }
  group.rank = static_cast<int>(me - group.members.begin());
  return group;
}

std::string fresh_nonce() {
  std::random_device random;
  std::string nonce;
  while (nonce.size() < kNonceDigits) {
    for (unsigned bits = random(), i = 0; i < 8; ++i, bits >>= 4) nonce += kDigits[bits & 15];
  }
  return nonce;
}

}  // namespace pycomms

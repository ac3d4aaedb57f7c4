#include "hostccl/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <tuple>

namespace hostccl::net {
namespace {

using pycomms::Code;
using pycomms::Status;

struct Pattern {
  bool excludes = false;
  bool exact = false;
  std::vector<std::string> names;

  // The number of the first name that fits, or -1.
  int find(std::string_view interface) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (exact ? interface == names[i] : interface.starts_with(names[i])) return static_cast<int>(i);
    }
    return -1;
  }
};

Pattern parse(std::string_view text) {
  Pattern pattern;
  auto take = [&text](char mark) {
    const bool there = text.starts_with(mark);
    if (there) text.remove_prefix(1);
    return there;
  };
  pattern.excludes = take('^');
  pattern.exact = take('=');
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) pattern.names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pattern;
}

bool fits_family(const Address& address, int family) {
  return family == 0 || address.family() == (family == 4 ? AF_INET : AF_INET6);
}

// Smaller is better.
int reach_of(const Address& address) {
  if (address.is_link_local()) return 2;
  return address.family() == AF_INET ? 0 : 1;
}

bool is_bridge(std::string_view name) { return name.starts_with("docker") || name.starts_with("virbr"); }

std::string describe(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& each : all) {
    text += (text.empty() ? "" : ", ") + each.name + " " + each.address.to_text();
    if (!each.is_up) text += " (down)";
  }
  return text.empty() ? "none" : text;
}

}  // namespace

pycomms::Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return Status::system("listing the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(raw, freeifaddrs);
  std::vector<Interface> all;
  for (const ifaddrs* each = raw; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const Address address = Address::from(each->ifa_addr);
    if (address.is_none()) continue;
    all.push_back(
        {each->ifa_name, (each->ifa_flags & IFF_UP) != 0, (each->ifa_flags & IFF_LOOPBACK) != 0, address.with_port(0)});
  }
  return all;
}

pycomms::Result<Address> choose_interface(const std::vector<Interface>& all, const InterfaceRule& rule) {
  if (rule.family != 0 && rule.family != 4 && rule.family != 6) {
    return Status(Code::kInvalidArgument,
                  "the socket family is " + std::to_string(rule.family) + ", expected 4, 6 or nothing");
  }
  const Pattern pattern = parse(rule.names);
  // The best is the smallest (loopback last unless it was named, order of the user's names, reach), then the first.
  const Interface* best = nullptr;
  std::tuple<bool, int, int> best_rank{};
  for (const Interface& each : all) {
    if (!each.is_up || !fits_family(each.address, rule.family)) continue;
    const int found = pattern.find(each.name);
    const bool named = !pattern.names.empty() && !pattern.excludes;
    if (named ? found < 0 : found >= 0) continue;
    if (pattern.names.empty() && is_bridge(each.name)) continue;
    const std::tuple rank{!named && each.is_loopback, named ? found : 0, reach_of(each.address)};
    if (best != nullptr && rank >= best_rank) continue;
    best = &each;
    best_rank = rank;
  }
  if (best != nullptr) return best->address;
  std::string asked = rule.names.empty() ? "any interface" : "interface '" + rule.names + "'";
  if (rule.family != 0) asked += " with IPv" + std::to_string(rule.family);
  return Status(Code::kInvalidArgument, asked + " was asked for and none fits; there are: " + describe(all));
}

}  // namespace hostccl::net

#include "faults.h"

#include <map>

namespace cuemu {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, FaultPoint> points;  // GUARDED_BY(mutex); a map's elements never move
};

Registry& registry() {
  static auto& leaked = *new Registry;
  return leaked;
}

}  // namespace

void FaultPoint::arm(const FaultPlan& plan) {
  const std::lock_guard lock(mutex_);
  plan_ = plan;
  armed_.store(plan.times > 0, std::memory_order_release);
}

void FaultPoint::disarm() { arm({.times = 0}); }

std::optional<Error> FaultPoint::consult() {
  const std::lock_guard lock(mutex_);
  if (plan_.times == 0) return std::nullopt;
  if (plan_.skip > 0) {
    --plan_.skip;
    return std::nullopt;
  }
  if (--plan_.times == 0) armed_.store(false, std::memory_order_release);
  return plan_.error;
}

FaultPoint& fault_point(const std::string& function) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.points[function];
}

std::vector<std::pair<std::string, FaultPoint*>> all_fault_points() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::pair<std::string, FaultPoint*>> result;
  for (auto& [name, point] : all.points) result.emplace_back(name, &point);
  return result;
}

}  // namespace cuemu

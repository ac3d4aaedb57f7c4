// Plain data as what a rank reports in a roll call. Must not know: what it means.
#pragma once

#include <cstring>
#include <type_traits>

#include "hostccl/roll_call.h"

namespace hostccl {

template <typename T>
Report to_report(const T& value) {
  static_assert(sizeof(T) <= kReportBytes && std::is_trivially_copyable_v<T>);
  Report report{};
  std::memcpy(report.data(), &value, sizeof(value));
  return report;
}

template <typename T>
T from_report(const Report& report) {
  static_assert(sizeof(T) <= kReportBytes && std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, report.data(), sizeof(value));
  return value;
}

}  // namespace hostccl

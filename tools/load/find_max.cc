#include "tools/load/find_max.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace gyre::load {
namespace {

constexpr double kCloseEnough = 1.05;
constexpr int kConfirmations = 3;
constexpr double kLowestRate = 1;
constexpr double kHighestRate = 1e9;
constexpr size_t kMaxSteps = 60;

class Searcher {
 public:
  Searcher(double bound_ms, const std::function<absl::StatusOr<SearchStep>(double)>& run)
      : run_(run) {
    search_.bound_ms = bound_ms;
  }

  absl::StatusOr<Search> Run(double first_rate);

 private:
  absl::StatusOr<bool> Keeps(double rate);
  absl::Status Bracket(double first_rate);
  absl::Status Halve();
  // True: the lower end kept the bound often enough.
  absl::StatusOr<bool> Confirm();

  const std::function<absl::StatusOr<SearchStep>(double)>& run_;
  Search search_;
  double low_ = 0;   // kept the bound; 0: none yet
  double high_ = 0;  // broke it; 0: none yet
};

absl::StatusOr<bool> Searcher::Keeps(double rate) {
  GYRE_ASSIGN_OR_RETURN(SearchStep step, run_(rate));
  step.kept = step.valid && step.p99_ms <= search_.bound_ms;
  search_.steps.push_back(step);
  return step.kept;
}

absl::Status Searcher::Bracket(double first_rate) {
  double rate = std::clamp(first_rate, kLowestRate, kHighestRate);
  while (search_.steps.size() < kMaxSteps) {
    GYRE_ASSIGN_OR_RETURN(const bool kept, Keeps(rate));
    (kept ? low_ : high_) = rate;
    if (low_ > 0 && high_ > 0) return absl::OkStatus();
    if ((kept && rate >= kHighestRate) || (!kept && rate <= kLowestRate)) return absl::OkStatus();
    rate = std::clamp(kept ? rate * 2 : rate / 2, kLowestRate, kHighestRate);
  }
  return absl::OkStatus();
}

absl::Status Searcher::Halve() {
  while (low_ > 0 && high_ > low_ * kCloseEnough && search_.steps.size() < kMaxSteps) {
    const double middle = (low_ + high_) / 2;
    GYRE_ASSIGN_OR_RETURN(const bool kept, Keeps(middle));
    (kept ? low_ : high_) = middle;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Searcher::Confirm() {
  search_.confirmations = 0;
  for (int i = 0; i < kConfirmations; ++i) {
    GYRE_ASSIGN_OR_RETURN(const bool kept, Keeps(low_));
    if (!kept) return false;
    ++search_.confirmations;
  }
  return true;
}

absl::StatusOr<Search> Searcher::Run(double first_rate) {
  GYRE_RETURN_IF_ERROR(Bracket(first_rate));
  GYRE_RETURN_IF_ERROR(Halve());
  while (low_ > 0 && search_.steps.size() < kMaxSteps) {
    GYRE_ASSIGN_OR_RETURN(const bool confirmed, Confirm());
    if (confirmed) break;
    // It was luck: a little lower, until three in a row keep it.
    high_ = low_;
    low_ = low_ / kCloseEnough >= kLowestRate ? low_ / kCloseEnough : 0;
  }
  search_.found_rate = search_.confirmations == kConfirmations ? low_ : 0;
  search_.broken_rate = high_;
  return search_;
}

}  // namespace

absl::StatusOr<Search> FindMax(double first_rate, double bound_ms,
                               const std::function<absl::StatusOr<SearchStep>(double)>& run) {
  return Searcher(bound_ms, run).Run(first_rate);
}

}  // namespace gyre::load

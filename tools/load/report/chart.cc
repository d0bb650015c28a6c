#include "tools/load/report/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace gyre::load {
namespace {

constexpr double kWidth = 720, kHeight = 300;
constexpr double kLeft = 70, kRight = 20, kTop = 34, kBottom = 40;

class Plot {
 public:
  explicit Plot(const Chart& chart);
  bool empty() const { return empty_; }
  std::string Svg() const;

 private:
  double X(double x) const {
    return kLeft + (x - x_low_) / (x_high_ - x_low_) * (kWidth - kLeft - kRight);
  }
  double Y(double y) const {
    const double at = chart_.log_y ? std::log10(std::max(y, y_low_)) : y;
    const double low = chart_.log_y ? std::log10(y_low_) : y_low_;
    const double high = chart_.log_y ? std::log10(y_high_) : y_high_;
    return kHeight - kBottom - (at - low) / (high - low) * (kHeight - kTop - kBottom);
  }
  void AppendYMark(double y, std::string* svg) const;
  void AppendAxes(std::string* svg) const;
  void AppendLine(const Line& line, size_t index, std::string* svg) const;

  const Chart& chart_;
  bool empty_ = true;
  double x_low_ = INFINITY, x_high_ = -INFINITY, y_low_ = INFINITY, y_high_ = -INFINITY;
};

Plot::Plot(const Chart& chart) : chart_(chart) {
  for (const Line& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      if (chart.log_y && y <= 0) continue;
      empty_ = false;
      x_low_ = std::min(x_low_, x);
      x_high_ = std::max(x_high_, x);
      y_low_ = std::min(y_low_, y);
      y_high_ = std::max(y_high_, y);
    }
  }
  if (empty_) return;
  if (x_high_ <= x_low_) x_high_ = x_low_ + 1;
  if (chart.log_y) {
    y_low_ = std::pow(10, std::floor(std::log10(y_low_)));
    y_high_ = std::pow(10, std::ceil(std::log10(y_high_ * 1.01)));
  } else {
    y_low_ = 0;
    y_high_ = y_high_ <= 0 ? 1 : y_high_ * 1.1;
  }
}

void Plot::AppendYMark(double y, std::string* svg) const {
  absl::StrAppendFormat(svg,
                        "<line class='grid' x1='%.0f' x2='%.0f' y1='%.1f' y2='%.1f'/>"
                        "<text class='label' x='%.0f' y='%.1f' text-anchor='end'>%s</text>",
                        kLeft, kWidth - kRight, Y(y), Y(y), kLeft - 6, Y(y) + 4,
                        Escape(chart_.show_y(y)));
}

void Plot::AppendAxes(std::string* svg) const {
  if (chart_.log_y) {
    for (double y = y_low_; y <= y_high_ * 1.001; y *= 10) AppendYMark(y, svg);
  } else {
    for (int i = 0; i <= 4; ++i) AppendYMark(y_high_ * i / 4, svg);
  }
  for (const auto& [x, text] : chart_.x_marks) {
    if (x < x_low_ || x > x_high_) continue;
    absl::StrAppendFormat(svg,
                          "<text class='label' x='%.1f' y='%.0f' text-anchor='middle'>%s</text>",
                          X(x), kHeight - kBottom + 16, Escape(text));
  }
  absl::StrAppendFormat(svg, "<text class='label' x='%.0f' y='%.0f' text-anchor='end'>%s</text>",
                        kWidth - kRight, kHeight - 6, Escape(chart_.x_label));
}

void Plot::AppendLine(const Line& line, size_t index, std::string* svg) const {
  std::string points;
  for (const auto& [x, y] : line.points) {
    if (chart_.log_y && y <= 0) continue;
    absl::StrAppendFormat(&points, "%.1f,%.1f ", X(x), Y(y));
  }
  absl::StrAppendFormat(svg, "<polyline class='s%d%s' points='%s'/>", index % 3,
                        line.dashed ? " dashed" : "", points);
  const double at = kLeft + 180 * static_cast<double>(index);
  absl::StrAppendFormat(svg,
                        "<line class='s%d%s' x1='%.0f' x2='%.0f' y1='26' y2='26'/>"
                        "<text class='label' x='%.0f' y='30'>%s</text>",
                        index % 3, line.dashed ? " dashed" : "", at, at + 18, at + 23,
                        Escape(line.name));
}

std::string Plot::Svg() const {
  std::string svg = absl::StrFormat(
      "<svg viewBox='0 0 %.0f %.0f' role='img' aria-label='%s'>"
      "<text class='title' x='%.0f' y='14'>%s</text>",
      kWidth, kHeight, Escape(chart_.title), kLeft, Escape(chart_.title));
  AppendAxes(&svg);
  for (size_t i = 0; i < chart_.lines.size(); ++i) AppendLine(chart_.lines[i], i, &svg);
  absl::StrAppend(&svg, "</svg>\n");
  return svg;
}

}  // namespace

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string ChartSvg(const Chart& chart) {
  const Plot plot(chart);
  return plot.empty() ? "" : plot.Svg();
}

}  // namespace gyre::load

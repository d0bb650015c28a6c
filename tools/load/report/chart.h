// Line charts as SVG, for the page. Colours come from the page's style by class: s0, s1,
// s2 for the lines, axis, grid and label for the rest.
#ifndef GYRE_TOOLS_LOAD_REPORT_CHART_H_
#define GYRE_TOOLS_LOAD_REPORT_CHART_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gyre::load {

struct Line {
  std::string name;
  std::vector<std::pair<double, double>> points;
  bool dashed = false;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::vector<Line> lines;
  bool log_y = false;
  // Where the x axis has its marks, with their text.
  std::vector<std::pair<double, std::string>> x_marks;
  std::function<std::string(double)> show_y;
};

// Empty without points.
std::string ChartSvg(const Chart& chart);
// &, <, > and quotes made harmless.
std::string Escape(const std::string& text);

}  // namespace gyre::load

#endif  // GYRE_TOOLS_LOAD_REPORT_CHART_H_

//! Tables.

use maud::{Markup, html};

use super::glyph::Glyph;

/// A column; its cells have the class of the column.
#[derive(Clone, Default)]
pub(crate) struct Column<'a> {
    label: &'a str,
    class: &'static str,
    sort: Option<Sort>,
    /// The label is for screen readers only.
    unlabelled: bool,
}

/// The link of a column heading that sorts the table.
#[derive(Clone)]
pub(crate) struct Sort {
    pub(crate) href: String,
    /// Present for the column that the table is sorted by.
    pub(crate) current: Option<Order>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Ascending,
    Descending,
}

impl Order {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ascending => "ascending",
            Self::Descending => "descending",
        }
    }
}

impl<'a> Column<'a> {
    pub(crate) fn new(label: &'a str) -> Self {
        Self { label, ..Self::default() }
    }

    /// The class of the cells, as in [`FILL`].
    pub(crate) fn with_class(mut self, class: &'static str) -> Self {
        self.class = class;
        self
    }

    pub(crate) fn sort(mut self, sort: Sort) -> Self {
        self.sort = Some(sort);
        self
    }

    /// A column of buttons.
    pub(crate) fn unlabelled(mut self) -> Self {
        self.unlabelled = true;
        self
    }

    fn class(&self) -> Option<&'static str> {
        (!self.class.is_empty()).then_some(self.class)
    }

    fn order(&self) -> Option<Order> {
        self.sort.as_ref().and_then(|sort| sort.current)
    }
}

/// The class of the column that takes the remaining width; long lines in it are cut.
pub(crate) const FILL: &str = "fill";
/// The class of two columns that share most of the width; long lines in them are cut.
pub(crate) const PART: &str = "part";
/// The class of columns with numbers, such as versions and ages.
pub(crate) const NUMBER: &str = "num nowrap";
/// The class of the last column, with buttons.
pub(crate) const BUTTONS: &str = "end";

/// A row; its first cell is the heading of the row.
pub(crate) struct Row {
    /// Identifies the row across live updates.
    pub(crate) id: Option<String>,
    pub(crate) cells: Vec<Markup>,
}

impl Row {
    pub(crate) fn new(cells: Vec<Markup>) -> Self {
        Self { id: None, cells }
    }
}

/// The appearance of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Values of an object or of a package.
    Values,
    /// A list of objects; in a narrow window each row is a block.
    Records,
    /// A table among the facts of an object.
    Nested,
}

impl Style {
    fn class(self) -> Option<&'static str> {
        match self {
            Self::Values => None,
            Self::Records => Some("lines records"),
            Self::Nested => Some("plain"),
        }
    }
}

pub(crate) fn show(style: Style, caption: &str, columns: &[Column<'_>], rows: &[Row]) -> Markup {
    html! {
        // A scrollable region is reachable by keyboard.
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table class=[style.class()] {
                caption.visually-hidden { (caption) }
                thead { tr { @for column in columns { (heading(column)) } } }
                tbody {
                    @for row in rows {
                        tr id=[row.id.as_deref()] {
                            @for (i, (column, cell)) in columns.iter().zip(&row.cells).enumerate() {
                                @if i == 0 { th class=[column.class()] scope="row" { (cell) } }
                                @else { td class=[column.class()] { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn heading(column: &Column<'_>) -> Markup {
    html! {
        th class=[column.class()] scope="col" aria-sort=[column.order().map(Order::as_str)] {
            @match &column.sort {
                Some(sort) => a href=(sort.href) { (column.label) @if sort.current.is_some() { (Glyph::Sort.draw()) } },
                None if column.unlabelled => span.visually-hidden { (column.label) },
                None => (column.label),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cell_is_the_heading_and_one_column_has_an_order() {
        let sort = |current| Sort { href: "/x?sort=a".into(), current };
        let columns = [
            Column::new("Name").sort(sort(Some(Order::Descending))),
            Column::new("Age").with_class(NUMBER).sort(sort(None)),
            Column::new("Actions").unlabelled(),
        ];
        let row = Row { id: Some("row-a".into()), cells: ["<a>", "3 d", ""].map(|t| html! { (t) }).into() };
        let html = show(Style::Records, "Objects", &columns, &[row]).into_string();
        assert!(
            html.contains(
                "<tr id=\"row-a\"><th scope=\"row\">&lt;a&gt;</th><td class=\"num nowrap\">3 d</td>"
            ),
            "{html}"
        );
        assert_eq!(html.matches("aria-sort").count(), 1, "{html}");
        assert!(html.contains("aria-sort=\"descending\"") && html.contains("tabindex=\"0\""), "{html}");
        assert!(html.contains("<span class=\"visually-hidden\">Actions</span>"), "{html}");
    }
}

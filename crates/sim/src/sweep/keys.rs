//! Keys of a workload: `machine.cpus`, `task.NAME.count`, `task.NAME.phases[0].run`.

use toml::{Table, Value};

/// One step of a path.
#[derive(Debug, PartialEq)]
enum Step<'k> {
    Name(&'k str),
    Index(usize),
}

/// Sets `key` of `table` to `value`. What is in an array is addressed by its `name`, or by its
/// index in brackets.
///
/// # Errors
/// A sentence that says where the path leads nowhere.
pub(super) fn set(table: &mut Table, key: &str, value: &Value) -> Result<(), String> {
    let steps = steps(key)?;
    let (Some(Step::Name(first)), rest) = (steps.first(), &steps[1..]) else {
        return Err("a key begins with a name, such as machine or task".into());
    };
    let place = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
    *find(place, first, rest)? = value.clone();
    Ok(())
}

fn find<'t>(
    mut place: &'t mut Value,
    name: &str,
    steps: &[Step<'_>],
) -> Result<&'t mut Value, String> {
    let mut above = name;
    for step in steps {
        place = match (place, step) {
            (Value::Table(table), Step::Name(name)) => {
                table.entry(*name).or_insert_with(|| Value::Table(Table::new()))
            }
            (Value::Array(array), Step::Index(index)) => {
                let length = array.len();
                array.get_mut(*index).ok_or_else(|| missing(above, length))?
            }
            (Value::Array(array), Step::Name(name)) => named(array, above, name)?,
            (_, Step::Name(name)) => return Err(format!("{above} has no keys, so no {name}")),
            (_, Step::Index(_)) => return Err(format!("{above} is no array: leave the index out")),
        };
        if let Step::Name(name) = step {
            above = name;
        }
    }
    Ok(place)
}

/// Why there is no entry of an index in `above`, which has `length`.
fn missing(above: &str, length: usize) -> String {
    match length.checked_sub(1) {
        None => format!("{above} has no entries: write one, or leave the key out"),
        Some(last) => format!("{above} has {length} entries: the last is {above}[{last}]"),
    }
}

/// The one of `array` that is called `name`; those without a name are called by their index, as in
/// workload files.
fn named<'t>(array: &'t mut [Value], above: &str, name: &str) -> Result<&'t mut Value, String> {
    let name_of = |(index, value): (usize, &Value)| match value.get("name").and_then(Value::as_str)
    {
        Some(name) => name.to_string(),
        None => format!("{above} {index}"),
    };
    let names: Vec<String> = array.iter().enumerate().map(name_of).collect();
    match names.iter().position(|known| known == name) {
        Some(index) => Ok(&mut array[index]),
        None => Err(format!("no {above} is called '{name}'; there are: {}", names.join(", "))),
    }
}

/// `a.b[0]."c.d"` in steps.
fn steps(key: &str) -> Result<Vec<Step<'_>>, String> {
    let mut steps = Vec::new();
    let mut rest = key;
    loop {
        let (name, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a quotation mark is not closed")?,
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        if name.is_empty() {
            return Err("a name is empty".into());
        }
        steps.push(Step::Name(name));
        rest = after;
        while let Some(bracketed) = rest.strip_prefix('[') {
            let (index, after) = bracketed.split_once(']').ok_or("a bracket is not closed")?;
            let index = index.parse().map_err(|_| format!("'{index}' is no index"))?;
            steps.push(Step::Index(index));
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(more) => rest = more,
            None if rest.is_empty() => return Ok(steps),
            None => return Err(format!("'{rest}' cannot follow a name or an index")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let text = "
            [[task]]
            name = 'a.b'
            phases = [{ run = '1ms' }, { sleep = '2ms' }]
            [[task]]
            count = 2
        ";
        text.parse().expect("TOML")
    }

    #[test]
    fn paths_lead_to_keys() {
        let set = |key: &str, value: i64| {
            let mut table = table();
            set(&mut table, key, &Value::Integer(value)).expect(key);
            table
        };
        assert_eq!(set("machine.cpus", 3)["machine"]["cpus"].as_integer(), Some(3));
        assert_eq!(set("task[1].count", 4)["task"][1]["count"].as_integer(), Some(4));
        assert_eq!(set("task.task 1.count", 4)["task"][1]["count"].as_integer(), Some(4));
        let table = set("task.\"a.b\".phases[1].sleep", 5);
        assert_eq!(table["task"][0]["phases"][1]["sleep"].as_integer(), Some(5));
    }

    #[test]
    fn paths_that_lead_nowhere_are_told() {
        let error = |key: &str| set(&mut table(), key, &Value::Integer(1)).expect_err(key);
        assert!(error("task.c.count").contains("'c'; there are: a.b, task 1"));
        assert!(error("task[2].count").contains("2 entries: the last is task[1]"));
        let mut none: Table = "cgroup = []".parse().expect("TOML");
        let told = super::set(&mut none, "cgroup[0].weight", &Value::Integer(1)).expect_err("none");
        assert!(told.starts_with("cgroup has no entries"), "{told}");
        assert!(error("task[0].phases.x").contains("no phases is called 'x'"));
        assert!(error("task[1].count.x").contains("count has no keys"));
        assert!(error("machine[0]").contains("no array"));
        assert!(error("task[x]").contains("'x' is no index"));
        assert!(error("task[0").contains("bracket"));
        assert!(error("task.\"a").contains("quotation"));
        assert!(error("task..count").contains("empty"));
        assert!(error("task[0]x").contains("'x' cannot follow"));
        assert!(error("").contains("empty"));
    }
}

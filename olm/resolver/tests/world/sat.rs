//! A plain search for a satisfying assignment: try true, try false, propagate. Slow, short, and independent
//! of the solver that it checks.

/// Positive: variable `l - 1` is true; negative: variable `-l - 1` is false.
pub type Literal = i32;

/// Variables and clauses; each clause must have a true literal.
#[derive(Clone, Debug, Default)]
pub struct Formula {
    variables: usize,
    clauses: Vec<Vec<Literal>>,
}

pub fn yes(variable: usize) -> Literal {
    variable as Literal + 1
}

pub fn no(variable: usize) -> Literal {
    -yes(variable)
}

fn variable(literal: Literal) -> usize {
    literal.unsigned_abs() as usize - 1
}

impl Formula {
    pub fn new(variables: usize) -> Self {
        Self { variables, clauses: Vec::new() }
    }

    pub fn clause(&mut self, literals: impl IntoIterator<Item = Literal>) {
        self.clauses.push(literals.into_iter().collect());
    }

    pub fn at_most_one(&mut self, variables: &[usize]) {
        for (i, a) in variables.iter().enumerate() {
            for b in &variables[i + 1..] {
                self.clause([no(*a), no(*b)]);
            }
        }
    }

    pub fn at_most(&mut self, n: usize, variables: &[usize]) {
        let mut subset: Vec<usize> = (0..=n).collect();
        while *subset.last().unwrap_or(&usize::MAX) < variables.len() {
            self.clause(subset.iter().map(|i| no(variables[*i])));
            // the next subset of n + 1 in lexicographic order
            let mut at = n;
            while subset[at] == variables.len() - (n + 1 - at) {
                if at == 0 {
                    return;
                }
                at -= 1;
            }
            subset[at] += 1;
            for i in at + 1..=n {
                subset[i] = subset[i - 1] + 1;
            }
        }
    }

    /// Whether there is an assignment under which every clause and every one of the assumptions holds.
    pub fn satisfiable(&self, assumptions: &[Literal]) -> bool {
        self.solution(assumptions).is_some()
    }

    pub fn solution(&self, assumptions: &[Literal]) -> Option<Vec<bool>> {
        let mut search = Search::new(self);
        assumptions.iter().all(|l| search.assign(*l)).then_some(())?;
        (self.clauses.iter().all(|c| search.unit(c)) && search.propagate()).then_some(())?;
        search.run().then(|| search.values.iter().map(|v| v.unwrap_or(false)).collect())
    }

    /// Whether an assignment is a solution.
    pub fn holds(&self, values: &[bool]) -> bool {
        self.clauses.iter().all(|c| c.iter().any(|l| values[variable(*l)] == (*l > 0)))
    }
}

struct Search<'a> {
    formula: &'a Formula,
    /// Per literal: the clauses with its negation.
    hurt: Vec<Vec<usize>>,
    values: Vec<Option<bool>>,
    trail: Vec<Literal>,
    done: usize,
}

fn index(literal: Literal) -> usize {
    variable(literal) * 2 + usize::from(literal > 0)
}

impl<'a> Search<'a> {
    fn new(formula: &'a Formula) -> Self {
        let mut hurt = vec![Vec::new(); formula.variables * 2];
        for (i, clause) in formula.clauses.iter().enumerate() {
            for literal in clause {
                hurt[index(-literal)].push(i);
            }
        }
        Self { formula, hurt, values: vec![None; formula.variables], trail: Vec::new(), done: 0 }
    }

    fn value(&self, literal: Literal) -> Option<bool> {
        self.values[variable(literal)].map(|v| v == (literal > 0))
    }

    /// Makes a literal true; false if it is already false.
    fn assign(&mut self, literal: Literal) -> bool {
        if self.value(literal).is_none() {
            self.values[variable(literal)] = Some(literal > 0);
            self.trail.push(literal);
        }
        self.value(literal) == Some(true)
    }

    /// Visits one clause: false when it cannot hold any more.
    fn unit(&mut self, clause: &[Literal]) -> bool {
        let mut open = None;
        for literal in clause {
            match self.value(*literal) {
                Some(true) => return true,
                Some(false) => {}
                None if open.is_some() => return true,
                None => open = Some(*literal),
            }
        }
        open.is_some_and(|literal| self.assign(literal))
    }

    fn propagate(&mut self) -> bool {
        let formula = self.formula;
        while self.done < self.trail.len() {
            let literal = self.trail[self.done];
            self.done += 1;
            for at in 0..self.hurt[index(literal)].len() {
                let clause = self.hurt[index(literal)][at];
                if !self.unit(&formula.clauses[clause]) {
                    return false;
                }
            }
        }
        true
    }

    fn run(&mut self) -> bool {
        let formula = self.formula;
        let open = formula.clauses.iter().find_map(|clause| {
            let holds = clause.iter().any(|l| self.value(*l) == Some(true));
            clause.iter().copied().find(|l| !holds && self.value(*l).is_none())
        });
        let Some(literal) = open else { return true };
        for guess in [literal, -literal] {
            let (length, done) = (self.trail.len(), self.done);
            if self.assign(guess) && self.propagate() && self.run() {
                return true;
            }
            for undone in self.trail.drain(length..) {
                self.values[variable(undone)] = None;
            }
            self.done = done;
        }
        false
    }
}
